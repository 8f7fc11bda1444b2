// The library's tiers: images on the device, which sessions share, before those in host memory and in files.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "tests/support/shelf.h"
#include "tests/support/whole_prompt.h"

namespace ocellus {
namespace {

using test::Answer;
using test::answer_golden;
using test::check_hits;
using test::default_params;
using test::make_engine;
using test::open_session;
using test::open_with;
using test::Shelf;
using test::WholePrompt;

ocellus_limits tiered_limits(int32_t sessions, int32_t shared, int32_t bits = 16, int32_t reuse = OCELLUS_REUSE_MPIC) {
  ocellus_limits limits = test::shelf_limits(4, 16, bits, reuse);
  limits.max_sessions = sessions;
  limits.shared_images = shared;
  limits.library_cache_bytes = int64_t{16} << 20;
  return limits;
}

/// Where the pictures of a prompt came from.
void check_tiers(const Answer& answer, int32_t device, int32_t memory, int32_t files, int32_t misses) {
  CHECK(answer.stats.shared_image_hits == device);
  CHECK(answer.stats.library_memory_hits == memory);
  CHECK((answer.stats.library_bytes_read > 0) == (files > 0));
  check_hits(answer, device + memory + files, misses);
}

/// Adds the prompt within a time that only a hang would take.
Status add_in_time(Session& session, const WholePrompt& prompt) {
  constexpr int64_t kPatience = int64_t{60} * 1000000000;
  int32_t failed = -1;
  session.stop_signal().set_deadline(now_ns() + kPatience);
  const Status status = test::add_whole(session, prompt, &failed);
  session.stop_signal().set_deadline(0);
  return status;
}

Answer ask_again(Session& session, int32_t golden = 13) {
  session.reset();
  return answer_golden(session, golden, 12);
}

}  // namespace

TEST_CASE("an image comes from the device first, then from host memory, then from a file, with the same bits") {
  for (const auto& [bits, reuse] : {std::pair{16, OCELLUS_REUSE_MPIC},
                                    {2, OCELLUS_REUSE_SPREAD},
                                    {16, OCELLUS_REUSE_PREFIX},
                                    {16, OCELLUS_REUSE_CARRY}}) {
    CAPTURE(bits);
    CAPTURE(reuse);
    Shelf shelf;
    Answer computed;
    {
      const std::unique_ptr<Engine> engine = make_engine(tiered_limits(2, 4, bits, reuse));
      Session &first = open_with(*engine, shelf, "ann"), &second = open_with(*engine, shelf, "ann");
      computed = answer_golden(first, 13, 12);
      check_tiers(computed, 0, 0, 0, 4);
      const Answer shared = answer_golden(second, 13, 12);
      check_tiers(shared, 4, 0, 0, 0);
      CHECK(shared.stats.library_saved_ms > 0);
      test::check_equal(shared, computed);
      CHECK(library_of(first)->outcome().last_key == library_of(second)->outcome().last_key);
      CHECK(library_of(second)->outcome().outcome == SessionKeep::Outcome::kFound);
    }
    const std::unique_ptr<Engine> engine = make_engine(tiered_limits(2, 4, bits, reuse));
    Session &first = open_with(*engine, shelf, "ann"), &second = open_with(*engine, shelf, "ann");
    const Answer read = answer_golden(first, 13, 12);
    check_tiers(read, 0, 0, 4, 0);
    test::check_equal(read, computed);
    const Answer shared = answer_golden(second, 13, 12);
    check_tiers(shared, 4, 0, 0, 0);
    test::check_equal(shared, read);
    // Another prompt takes the places; the host's memory still has the pictures.
    second.reset();
    first.reset();
    for (const int32_t other : {15, 16, 17}) (void)ask_again(first, other);
    const Answer remembered = ask_again(first);
    CHECK(remembered.stats.library_misses == 0);
    CHECK(remembered.stats.library_bytes_read == 0);
    CHECK(remembered.stats.library_memory_hits > 0);
    test::check_equal(remembered, read);
  }
}

TEST_CASE("an entry that is removed, replaced or expired is not found on the device, and its users keep it") {
  Shelf shelf;
  const std::unique_ptr<Engine> engine = make_engine(tiered_limits(3, 3));
  Session &user = open_with(*engine, shelf, "ann"), &session = open_with(*engine, shelf, "ann");
  const std::unique_ptr<Engine> apart = make_engine(tiered_limits(1, 0));
  Session& plain = open_session(*apart);
  const Answer expected = answer_golden(plain, 1, 4), rest = test::answer_of(plain, default_params(8));
  REQUIRE(set_library_keep(session, {.expires = shelf.clock.seconds + 100}, LibraryPart::kOwn, false).ok());
  test::check_equal(answer_golden(user, 1, 4), expected);
  check_tiers(answer_golden(session, 1, 4), 1, 0, 0, 0);
  const LibraryKey key = library_of(session)->outcome().last_key;
  bool found = false;
  REQUIRE(shelf.library.remove("ann", LibraryPart::kOwn, key, &found).ok());
  REQUIRE(found);
  const Answer computed = ask_again(session, 1);
  check_tiers(computed, 0, 0, 0, 1);
  check_tiers(ask_again(session, 1), 1, 0, 0, 0);
  shelf.clock.seconds += 200;
  check_tiers(ask_again(session, 1), 0, 0, 0, 1);
  test::check_equal(test::answer_of(user, default_params(8)), rest);
}

TEST_CASE("owners share no images on the device, not even those of the shared part") {
  Shelf shelf;
  const std::unique_ptr<Engine> engine = make_engine(tiered_limits(3, 3));
  Session &ann = open_with(*engine, shelf, "ann"), &bob = open_with(*engine, shelf, "bob");
  REQUIRE(shelf.library.create_shared("ann").ok());
  check_tiers(answer_golden(ann, 1, 2), 0, 0, 0, 1);
  check_tiers(answer_golden(bob, 1, 2), 0, 0, 0, 1);
  REQUIRE(set_library_keep(ann, {}, LibraryPart::kShared, true).ok());
  (void)ask_again(ann, 2);
  library_traffic(*engine).finish_writes();
  const Answer shared = ask_again(bob, 2);
  CHECK(shared.stats.library_hits == 1);
  CHECK(shared.stats.shared_image_hits == 0);
}

TEST_CASE("an image that the library could not store is shared with nobody") {
  Shelf shelf;
  const std::unique_ptr<Engine> engine = make_engine(tiered_limits(2, 4));
  Session &first = open_with(*engine, shelf, "ann"), &second = open_with(*engine, shelf, "ann");
  (void)answer_golden(first, 1, 2);
  library_traffic(*engine).finish_writes();
  std::filesystem::remove_all(shelf.path);
  const Answer lost = ask_again(first, 2);
  const Answer again = ask_again(second, 2);
  CHECK(again.stats.shared_image_hits == 0);
  test::check_equal(again, lost);
}

TEST_CASE("prompts that find no place on the device take no load with them") {
  Shelf shelf;
  const std::unique_ptr<Engine> engine = make_engine(tiered_limits(2, 4));
  Session &first = open_with(*engine, shelf, "ann"), &second = open_with(*engine, shelf, "ann");
  (void)answer_golden(first, 13, 2);  // four pictures, in all places
  const WholePrompt others({"images/004.png", "images/024.png", "images/036.png"});
  for (int32_t i = 0; i < 4; ++i) CHECK(add_in_time(second, others).code() == Code::kFull);
  first.reset();
  REQUIRE_MESSAGE(add_in_time(second, others).ok(), last_failure().sentence);
  check_tiers(test::answer_of(second, default_params(2)), 0, 0, 0, 3);
}

TEST_CASE("a picture that the device turns out not to have is read before those after it") {
  Shelf shelf;
  const std::unique_ptr<Engine> engine = make_engine(tiered_limits(2, 4));
  Session &first = open_with(*engine, shelf, "ann"), &second = open_with(*engine, shelf, "ann");
  std::filesystem::remove_all(shelf.path);  // so that nothing is stored, which is known only later
  const WholePrompt one({"images/004.png"}), three({"images/004.png", "images/024.png", "images/036.png"});
  REQUIRE(add_in_time(first, one).ok());
  REQUIRE(test::answer_of(first, default_params(2)).status.ok());
  REQUIRE_MESSAGE(add_in_time(second, three).ok(), last_failure().sentence);
  check_tiers(test::answer_of(second, default_params(2)), 0, 0, 0, 3);
}

TEST_CASE("an entry that is added by its key is linked from the device") {
  Shelf shelf;
  const std::unique_ptr<Engine> engine = make_engine(tiered_limits(2, 2));
  Session &first = open_with(*engine, shelf, "ann"), &second = open_with(*engine, shelf, "ann");
  (void)answer_golden(first, 1, 2);
  const LibraryKey key = library_of(first)->outcome().last_key;
  REQUIRE(second.begin_turn().ok());
  REQUIRE_MESSAGE(second.prompt().add_named_picture(key_text(key).text).ok(), last_failure().sentence);
  REQUIRE(second.add_text("What is on the left?", false).ok());
  REQUIRE(second.end_turn().ok());
  check_tiers(test::answer_of(second, default_params(4)), 1, 0, 0, 0);
  CHECK(second.cache().place_of(0) == first.cache().place_of(0));
}

}  // namespace ocellus

// Pictures of every vision family from an image library, on tiny random pairs.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/session/session.h"
#include "tests/support/shelf.h"
#include "tests/support/tiny_families.h"

namespace ocellus {
namespace {

using test::Shelf;

/// Results of a prompt with one picture.
struct Seen {
  test::Answer answer;
  std::vector<std::vector<std::byte>> blocks;  // the picture's blocks
};

/// By its key if there is one, else by its pixels.
void add_prompt(Session& session, const char* before, const test::TestPicture& picture, const LibraryKey* key) {
  session.reset();
  test::add_words(session, before);
  const Status status =
      key == nullptr ? session.add_frame(picture.frame()) : session.prompt().add_named_picture(key_text(*key).text);
  REQUIRE_MESSAGE(status.ok(), last_failure().sentence);
  test::add_words(session, "What is it?");
}

Seen ask(Session& session, const char* before, const test::TestPicture& picture, const LibraryKey* key) {
  add_prompt(session, before, picture, key);
  Seen seen;
  seen.answer = test::answer_of(session, test::default_params(8));
  REQUIRE_MESSAGE(seen.answer.status.ok(), last_failure().sentence);
  const SessionCache& cache = session.cache();
  for (int32_t b = 0; b < cache.blocks_per_image(); ++b)
    seen.blocks.push_back(
        test::download<std::byte>(cache.image_block(0, b).data, cache.shape().block_bytes(), session.engine().queue()));
  return seen;
}

void check_same(const Seen& first, const Seen& second) {
  check_equal(first.answer, second.answer);
  CHECK(first.blocks == second.blocks);
}

}  // namespace

TEST_CASE("a picture of any family that the library has is the same bits, by its pixels or by its key") {
  test::for_each_tiny_family([](const Model& model) {
    for (const int32_t bits : {16, 2}) {
      if (bits < 16 && !test::can_pack(model)) continue;
      CAPTURE(bits);
      Shelf shelf;
      ocellus_limits limits = test::linking_limits(OCELLUS_REUSE_MPIC, 3);
      limits.cache.kv_bits = bits;
      limits.library = 1;
      const std::unique_ptr<Engine> engine = test::make_engine(model, limits);
      Session& session = test::open_with(*engine, shelf, "ann");
      for (const test::TestPicture& picture : {test::wide_picture(), test::tall_picture(), test::TestPicture(28, 28)}) {
        CAPTURE(picture.width);
        const Seen stored = ask(session, "Look: ", picture, nullptr);
        test::check_hits(stored.answer, 0, 1);
        const LibraryKey key = library_of(session)->outcome().last_key;
        const Seen found = ask(session, "Look: ", picture, nullptr), by_key = ask(session, "Look: ", picture, &key);
        test::check_hits(found.answer, 1, 0);
        check_same(stored, found);
        check_same(stored, by_key);
        const Seen elsewhere = ask(session, "At another place stands this: ", picture, &key);
        CHECK(elsewhere.blocks == stored.blocks);
        CHECK(elsewhere.answer.stats.logits_hash != stored.answer.stats.logits_hash);
      }
    }
  });
}

TEST_CASE("a picture of any family that the library has as it was read is found after the same beginning") {
  test::for_each_tiny_family([](const Model& model) {
    Shelf shelf;
    ocellus_limits limits = test::linking_limits(OCELLUS_REUSE_PREFIX, 0);
    limits.library = 1;
    const std::unique_ptr<Engine> engine = test::make_engine(model, limits);
    Session& session = test::open_with(*engine, shelf, "ann");
    const Seen stored = ask(session, "Look: ", test::wide_picture(), nullptr);
    const Seen found = ask(session, "Look: ", test::wide_picture(), nullptr);
    test::check_hits(stored.answer, 0, 1);
    test::check_hits(found.answer, 1, 0);
    check_same(stored, found);
    // Alone its words are read without its rows, and few rows are multiplied otherwise than many.
    limits.library = 0;
    const std::unique_ptr<Engine> plain_engine = test::make_engine(model, limits);
    Session& plain = test::open_session(*plain_engine);
    add_prompt(plain, "Look: ", test::wide_picture(), nullptr);
    add_prompt(session, "Look: ", test::wide_picture(), nullptr);
    const std::vector<float> expected = test::first_logits(plain), logits = test::first_logits(session);
    float largest = 0, difference = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      largest = std::max(largest, std::abs(expected[i]));
      difference = std::max(difference, std::abs(logits[i] - expected[i]));
    }
    CHECK(difference < 0.1f * largest);
    test::check_hits(ask(session, "Now: ", test::wide_picture(), nullptr).answer, 0, 1);
  });
}

}  // namespace ocellus

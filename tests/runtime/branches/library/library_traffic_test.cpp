// Transfers of the image library's entries: read ahead, kept in memory, written in the background.
#include <doctest/doctest.h>

#include <cstring>
#include <fstream>
#include <thread>

#include "runtime/engine/memory_plan.h"
#include "runtime/models/model_shapes.h"
#include "tests/support/shelf.h"
#include "tests/support/whole_prompt.h"

namespace ocellus {
namespace {

using test::Answer;
using test::check_hits;
using test::make_engine;
using test::open_session;
using test::open_with;
using test::Shelf;
using test::WholePrompt;

constexpr int64_t kTier = int64_t{4} << 20;

ocellus_limits tier_limits(int32_t images, int64_t bytes = kTier, int32_t bits = 16) {
  ocellus_limits limits = test::shelf_limits(images, 16, bits);
  limits.library_cache_bytes = bytes;
  return limits;
}

LibraryShape sizes_of(const ocellus_limits& limits) {
  EngineShape shape;
  LibraryShape sizes;
  REQUIRE(resolve_shape(test::any_model(), limits, &shape).ok());
  REQUIRE(LibraryShape::of(shape, test::any_model().text().input_width(), &sizes).ok());
  return sizes;
}

/// The pictures of golden 13.
std::vector<std::string> boards() { return test::golden(13).images; }

Answer ask_whole(Session& session, const std::vector<std::string>& images) {
  const WholePrompt prompt(images);
  int32_t failed = 7;
  REQUIRE_MESSAGE(test::add_whole(session, prompt, &failed).ok(), last_failure().sentence);
  CHECK(failed == -1);
  return test::answer_of(session, test::default_params(8));
}

Answer ask_one_by_one(Session& session, const std::vector<std::string>& images) {
  const WholePrompt prompt(images);
  session.reset();
  REQUIRE(session.begin_turn().ok());
  for (size_t i = 0; i < images.size(); ++i) {
    REQUIRE(session.add_text(prompt.texts[i], false).ok());
    REQUIRE(session.add_encoded_image(prompt.pictures[i].data(), std::ssize(prompt.pictures[i])).ok());
  }
  REQUIRE(session.add_text(WholePrompt::kQuestion, false).ok());
  REQUIRE(session.end_turn().ok());
  return test::answer_of(session, test::default_params(8));
}

LibraryKey only_key(ImageLibrary& library, const char* owner) {
  LibraryKey key;
  const auto take_key = [](void* user, const LibraryItem& item) {
    *static_cast<LibraryKey*>(user) = item.key;
    return false;
  };
  REQUIRE(library.list(owner, take_key, &key).ok());
  return key;
}

/// Puts the owner's only entry again, which then expires at this second.
void put_again(ImageLibrary& library, const char* owner, int64_t expires) {
  LibraryEntry entry;
  bool found = false;
  REQUIRE(library.find_key(owner, only_key(library, owner), &entry, &found).ok());
  REQUIRE(found);
  std::vector<std::vector<std::byte>> bytes;
  std::vector<std::span<const std::byte>> blocks;
  for (int32_t i = 0; i < entry.block_count(); ++i) {
    bytes.emplace_back(static_cast<size_t>(entry.block_bytes(i)));
    REQUIRE(entry.read_block(i, bytes.back(), &found).ok());
  }
  for (const std::vector<std::byte>& block : bytes) blocks.emplace_back(block);
  NewEntry again;
  again.facts = entry.facts();
  again.expires = expires;
  again.blocks = blocks;
  LibraryKey key;
  REQUIRE(library.put(owner, LibraryPart::kOwn, again, &key).ok());
}

void check_from(const Answer& answer, int32_t memory, int32_t disk, int32_t misses) {
  check_hits(answer, memory + disk, misses);
  CHECK(answer.stats.library_memory_hits == memory);
  CHECK((answer.stats.library_bytes_read > 0) == (disk > 0));
}

}  // namespace

TEST_CASE("an image gives the same bits from memory, from the disk and computed") {
  for (const int32_t bits : {16, 2}) {
    CAPTURE(bits);
    Shelf shelf;
    const std::vector<std::string> images = boards();
    Answer computed;
    {
      const std::unique_ptr<Engine> engine = make_engine(tier_limits(4, kTier, bits));
      Session& session = open_with(*engine, shelf, "ann");
      computed = ask_whole(session, images);
      check_from(computed, 0, 0, 4);
      CHECK(computed.stats.library_saved_ms == 0);
      library_traffic(*engine).finish_writes();
      const Answer again = ask_whole(session, images);
      check_from(again, 4, 0, 0);  // written entries are in memory, too
      CHECK(again.stats.library_saved_ms > 0);
      CHECK(again.stats.encode_ms == 0);
      test::check_equal(again, computed);
    }
    const std::unique_ptr<Engine> engine = make_engine(tier_limits(4, kTier, bits));
    Session& session = open_with(*engine, shelf, "ann");
    const Answer read = ask_whole(session, images);
    check_from(read, 0, 4, 0);
    CHECK(read.stats.library_saved_ms != 0);
    test::check_equal(read, computed);
    const Answer remembered = ask_one_by_one(session, images);
    check_from(remembered, 4, 0, 0);
    test::check_equal(remembered, computed);
    // Sessions share it, owners do not.
    session.close();
    check_from(ask_whole(open_with(*engine, shelf, "bob"), {images[0]}), 0, 0, 1);
  }
}

TEST_CASE("the memory tier keeps what was used last, as many as were planned") {
  Shelf shelf;
  const std::vector<std::string> images = boards();
  const int64_t each = sizes_of(tier_limits(4)).entry_bytes + int64_t{sizeof(CachedEntry)};
  const std::unique_ptr<Engine> engine = make_engine(tier_limits(4, 2 * each + 256));
  CHECK(sizes_of(engine->shape().limits).cached_entries == 2);
  Session& session = open_with(*engine, shelf, "ann");
  ask_whole(session, {images[0], images[1], images[2]});
  library_traffic(*engine).finish_writes();
  check_from(ask_whole(session, {images[2]}), 1, 0, 0);
  check_from(ask_whole(session, {images[0]}), 0, 1, 0);
  check_from(ask_whole(session, {images[2]}), 1, 0, 0);
  check_from(ask_whole(session, {images[1]}), 0, 1, 0);
}

TEST_CASE("entries that were removed, replaced, damaged or have expired are not served from memory") {
  Shelf shelf;
  const std::unique_ptr<Engine> engine = make_engine(tier_limits(1));
  Session& session = open_with(*engine, shelf, "ann");
  const std::vector<std::string> image = {boards()[0]};
  const Answer expected = ask_whole(session, image);
  const auto ask = [&](int32_t memory, int32_t disk, int32_t misses) {
    library_traffic(*engine).finish_writes();
    const Answer answer = ask_whole(session, image);
    check_from(answer, memory, disk, misses);
    test::check_equal(answer, expected);
    library_traffic(*engine).finish_writes();
  };
  ask(1, 0, 0);
  ImageLibrary other;  // as another process would have it open
  REQUIRE(other.open({.path = shelf.path.c_str(), .clock = &shelf.clock}).ok());
  bool found = false;
  REQUIRE(other.remove("ann", LibraryPart::kOwn, only_key(other, "ann"), &found).ok());
  CHECK(found);
  ask(0, 0, 1);
  ask(1, 0, 0);
  put_again(other, "ann", shelf.clock.seconds + 10);
  ask(0, 1, 0);
  ask(1, 0, 0);
  shelf.clock.seconds += 10;
  ask(0, 0, 1);
  ask(1, 0, 0);
  const std::filesystem::path file = shelf.files().at(0);
  {
    std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekp(5000);
    bytes.put('?');
  }
  ask(0, 0, 1);
  ask(1, 0, 0);
  // A library with the same entries, opened anew: nothing is known of it.
  ImageLibrary reopened;
  REQUIRE(reopened.open({.path = shelf.path.c_str(), .clock = &shelf.clock}).ok());
  REQUIRE(set_library(session, &reopened, "ann").ok());
  ask(0, 1, 0);
  ask(1, 0, 0);
  REQUIRE(set_library(session, nullptr, "").ok());
}

TEST_CASE("a prompt of known and new images gives the same as its parts one by one") {
  const std::vector<std::string> images = boards();
  const std::vector<std::string> mixed = {images[0], images[1], images[0], images[2], images[3], images[1], images[2]};
  for (const int64_t tier : {int64_t{0}, kTier}) {
    CAPTURE(tier);
    Shelf shelf;
    const std::unique_ptr<Engine> engine = make_engine(tier_limits(8, tier));
    Session& session = open_with(*engine, shelf, "ann");
    ask_whole(session, {images[1], images[3]});
    library_traffic(*engine).finish_writes();
    const Answer whole = ask_whole(session, mixed);
    check_hits(whole, 5, 2);
    Session& alone = session;
    REQUIRE(set_library(alone, nullptr, "").ok());
    const Answer computed = ask_one_by_one(alone, mixed);
    check_hits(computed, 0, 0);
    test::check_equal(whole, computed);
    test::check_equal(ask_whole(alone, mixed), computed);
    REQUIRE(set_library(alone, &shelf.library, "ann").ok());
    test::check_equal(ask_one_by_one(alone, mixed), computed);
  }
}

TEST_CASE("an entry that is damaged on the disk is computed while others are read") {
  Shelf shelf;
  const std::vector<std::string> images = boards();
  Answer expected;
  {
    const std::unique_ptr<Engine> engine = make_engine(tier_limits(4, 0));
    expected = ask_whole(open_with(*engine, shelf, "ann"), images);
  }
  const std::vector<std::filesystem::path> files = shelf.files();
  REQUIRE(files.size() == 4);  // the engine finished them before it went
  std::filesystem::resize_file(files[1], 8192);
  const std::unique_ptr<Engine> engine = make_engine(tier_limits(4, 0));
  const Answer answer = ask_whole(open_with(*engine, shelf, "ann"), images);
  check_hits(answer, 3, 1);
  test::check_equal(answer, expected);
}

TEST_CASE("a prompt whose parts cannot all be added leaves nothing behind") {
  Shelf shelf;
  const std::unique_ptr<Engine> engine = make_engine(tier_limits(3));
  Session& session = open_with(*engine, shelf, "ann");
  const std::vector<std::string> images = boards();
  const Answer expected = ask_whole(session, {images[0], images[1]});
  for (const bool with_library : {true, false}) {
    CAPTURE(with_library);
    REQUIRE(set_library(session, with_library ? &shelf.library : nullptr, "ann").ok());
    session.reset();
    const test::FreeBlocks before(*engine);
    REQUIRE(session.begin_turn().ok());
    WholePrompt prompt({images[0], images[1]});
    const auto refuse = [&](const WholePrompt& bad, Code code, int32_t at) {
      int32_t failed = -1;
      CHECK(session.add_parts(bad.parts.data(), bad.count(), &failed).code() == code);
      CHECK(failed == at);
      CHECK(before == test::FreeBlocks(*engine));
    };
    WholePrompt four(images);  // one more than planned
    refuse(four, Code::kFull, 7);
    WholePrompt cut = prompt;
    cut.parts[3].byte_count = 60;
    refuse(cut, Code::kBadImage, 3);
    cut.parts[3] = WholePrompt::part(7, "x", 1);
    refuse(cut, Code::kBadArgument, 3);
    cut.parts[3] = WholePrompt::part(OCELLUS_PART_FRAME, nullptr, 0);
    refuse(cut, Code::kBadArgument, 3);
    cut.parts[3] = WholePrompt::part(OCELLUS_PART_TEXT, nullptr, -1);
    refuse(cut, Code::kBadArgument, 3);
    session.stop_signal().cancel();
    int32_t failed = -1;
    CHECK(session.acknowledge_cancel(session.add_parts(prompt.parts.data(), prompt.count(), &failed)).code() ==
          Code::kCancelled);
    REQUIRE(session.add_parts(prompt.parts.data(), prompt.count(), &failed).ok());
    REQUIRE(session.end_turn().ok());
    const Answer answer = test::answer_of(session, test::default_params(8));
    CHECK(answer.text == expected.text);
    CHECK(answer.stats.logits_hash == expected.stats.logits_hash);
  }
}

TEST_CASE(
    "a prompt can be cancelled at any time while images are read and written, and comes out right the next time") {
  Shelf shelf;
  const std::unique_ptr<Engine> engine = make_engine(tier_limits(4, 0));
  Session& session = open_with(*engine, shelf, "ann");
  const std::vector<std::string> images = boards();
  const Answer expected = ask_whole(session, images);
  const test::FreeBlocks held(*engine);
  const WholePrompt prompt(images);
  int32_t cancelled = 0;
  for (int32_t i = 0; i < 40; ++i) {
    CAPTURE(i);
    session.reset();
    if (i % 4 == 0) {
      bool found = false;
      library_traffic(*engine).finish_writes();
      REQUIRE(shelf.library.remove("ann", LibraryPart::kOwn, only_key(shelf.library, "ann"), &found).ok());
    }
    REQUIRE(session.begin_turn().ok());
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(150 * i));
      session.stop_signal().cancel();
    });
    int32_t failed = -1;
    const Status status = session.add_parts(prompt.parts.data(), prompt.count(), &failed);
    other.join();
    session.stop_signal().acknowledge();
    CHECK((status.ok() || status.code() == Code::kCancelled));
    cancelled += status.ok() ? 0 : 1;
  }
  CHECK(cancelled > 0);
  test::check_equal(ask_whole(session, images), expected);
  CHECK(held == test::FreeBlocks(*engine));
}

TEST_CASE("what is being written is there when the library or the engine is closed, and found before that") {
  Shelf shelf;
  const std::vector<std::string> images = boards();
  auto library = std::make_unique<ImageLibrary>();
  REQUIRE(library->open({.path = shelf.path.c_str(), .clock = &shelf.clock}).ok());
  const std::unique_ptr<Engine> engine = make_engine(tier_limits(4, 0));
  Session& session = open_session(*engine);
  REQUIRE(set_library(session, library.get(), "ann").ok());
  check_hits(ask_whole(session, {images[0], images[0], images[0]}), 2, 1);
  ask_whole(session, {images[1]});
  REQUIRE(set_library(session, nullptr, "").ok());
  library.reset();
  CHECK(shelf.files().size() == 2);
  CHECK(library_traffic(*engine).totals().unstored == 0);
}

TEST_CASE("an image that no disk takes is counted, and the session goes on") {
  Shelf shelf;
  const std::unique_ptr<Engine> engine = make_engine(tier_limits(1));
  Session& session = open_with(*engine, shelf, "ann");
  std::filesystem::remove_all(shelf.path);
  check_hits(ask_whole(session, {boards()[0]}), 0, 1);
  library_traffic(*engine).finish_writes();
  ocellus_engine_stats stats;
  engine->describe(&stats);
  CHECK(stats.library_unstored == 1);
}

TEST_CASE("images of a made-up model are kept under a name that no file has" * doctest::test_suite("long")) {
  Shelf shelf;
  const ModelShape* published = nullptr;
  REQUIRE(find_model_shape("SmolVLM-256M", &published).ok());
  ModelShape shape = *published;
  shape.text.layer_count = 2;
  shape.vision.layer_count = 1;
  Model model;
  REQUIRE_MESSAGE(model.open_shape(shape, WeightFormat::kQ8_0).ok(), last_failure().sentence);
  ocellus_limits limits = tier_limits(1, int64_t{64} << 20);
  limits.lean = 1;
  const std::unique_ptr<Engine> engine = make_engine(model, limits);
  Session& session = open_with(*engine, shelf, "ann");
  const std::vector<uint8_t> picture = test::board_bytes(boards()[0]);
  const auto ask = [&] {
    session.reset();
    REQUIRE_MESSAGE(session.add_encoded_image(picture.data(), std::ssize(picture)).ok(), last_failure().sentence);
    REQUIRE(session.add_text("Look.", false).ok());
    return test::answer_of(session, test::default_params(1));
  };
  const Answer computed = ask();
  check_from(computed, 0, 0, 1);
  library_traffic(*engine).finish_writes();
  const Answer remembered = ask();
  check_from(remembered, 1, 0, 0);
  CHECK(remembered.stats.logits_hash == computed.stats.logits_hash);
  LibraryEntry entry;
  bool found = false;
  REQUIRE(shelf.library.find_key("ann", only_key(shelf.library, "ann"), &entry, &found).ok());
  REQUIRE(found);
  CHECK((entry.facts().format_version & kMadeUpModel) != 0);
}

TEST_CASE("the memory tier is planned to the byte, within what was asked for") {
  const auto total = [](int64_t bytes) {
    ocellus_plan plan;
    REQUIRE_MESSAGE(plan_memory(test::any_model(), tier_limits(4, bytes), &plan).ok(), last_failure().sentence);
    return plan.total_bytes;
  };
  const int64_t each = sizes_of(tier_limits(4)).entry_bytes + int64_t{sizeof(CachedEntry)};
  for (const int64_t bytes : {each + 256, 3 * each, kTier}) {
    CAPTURE(bytes);
    const int64_t tier = total(bytes) - total(0);
    CHECK(tier <= bytes);
    CHECK(tier > bytes - each - 512);
  }
  const std::unique_ptr<Engine> engine = make_engine(tier_limits(4, kTier));
  ocellus_engine_stats stats;
  engine->describe(&stats);
  CHECK(stats.arena_bytes == total(kTier));
  ocellus_plan plan;
  const auto refuse = [&](const ocellus_limits& limits) {
    CHECK(plan_memory(test::any_model(), limits, &plan).code() == Code::kBadArgument);
  };
  refuse(tier_limits(4, each - 1));
  refuse(tier_limits(4, -1));
  ocellus_limits without = tier_limits(4);
  without.library = 0;
  refuse(without);
}

}  // namespace ocellus

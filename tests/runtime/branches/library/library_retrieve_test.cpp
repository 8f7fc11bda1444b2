// Sessions that take images from the library by key, search it with pictures, and say how images are kept.
#include <doctest/doctest.h>

#include "runtime/branches/library/library_session.h"
#include "runtime/session/session.h"
#include "tests/support/library.h"
#include "tests/support/packed_sessions.h"
#include "tests/support/pictures.h"
#include "tests/support/random_model.h"

namespace ocellus {
namespace {

using test::Answer;
using test::answer_of;
using test::default_params;
using test::make_engine;
using test::open_session;
using test::TestLibrary;

const std::string kBoards[] = {"images/004.png", "images/024.png", "images/113.png"};

ocellus_limits shelf_limits(int32_t images, int32_t rows, int32_t bits = 16) {
  ocellus_limits limits = test::packed_limits(images, 200, bits);
  limits.reuse = OCELLUS_REUSE_MPIC;
  limits.reuse_rows = rows;
  limits.library = 1;
  return limits;
}

Session& open_with(Engine& engine, TestLibrary& shelf, const char* owner) {
  Session& session = open_session(engine);
  REQUIRE_MESSAGE(set_library(session, &shelf.library, owner).ok(), last_failure().sentence);
  return session;
}

/// Adds the picture alone, and forgets it; its key.
LibraryKey store(Session& session, const std::string& board) {
  REQUIRE_MESSAGE(test::add_board(session, board).ok(), last_failure().sentence);
  const SessionKeep& keep = library_of(session)->outcome();
  REQUIRE(keep.outcome != SessionKeep::Outcome::kFailed);
  session.reset();
  return keep.last_key;
}

/// A turn about two images, each a picture or an entry.
Answer ask(Session& session, const std::string (&boards)[2], const LibraryKey* keys, int32_t tokens = 16) {
  REQUIRE(session.begin_turn().ok());
  REQUIRE(session.add_text("First:", false).ok());
  for (int i = 0; i < 2; ++i) {
    const Status status = keys == nullptr ? test::add_board(session, boards[i])
                                          : session.prompt().add_named_picture(key_text(keys[i]).text);
    REQUIRE_MESSAGE(status.ok(), last_failure().sentence);
    REQUIRE(session.add_text("and\n", false).ok());
  }
  REQUIRE(session.add_text("what differs?", false).ok());
  REQUIRE(session.end_turn().ok());
  const Answer answer = answer_of(session, default_params(tokens));
  REQUIRE_MESSAGE(answer.status.ok(), last_failure().sentence);
  return answer;
}

/// The same blocks under the owner's own name, with other facts.
template <class Change>
LibraryKey put_changed(TestLibrary& shelf, const LibraryKey& of, Change change) {
  LibraryEntry entry;
  bool found = false;
  REQUIRE(shelf.library.find_key("ann", of, &entry, &found).ok());
  std::vector<std::vector<std::byte>> blocks;
  for (int32_t i = 0; i < entry.block_count(); ++i) {
    blocks.emplace_back(static_cast<size_t>(entry.block_bytes(i)));
    REQUIRE(entry.read_block(i, blocks.back(), &found).ok());
  }
  const std::vector<std::span<const std::byte>> spans(blocks.begin(), blocks.end());
  NewEntry changed{.facts = entry.facts(), .blocks = spans};
  change(changed.facts);
  LibraryKey key;
  REQUIRE_MESSAGE(shelf.library.put("ann", LibraryPart::kOwn, changed, &key).ok(), last_failure().sentence);
  return key;
}

Status add_key(Session& session, const LibraryKey& key) {
  return session.prompt().add_named_picture(key_text(key).text);
}

std::string sentence() { return last_failure().sentence; }

}  // namespace

TEST_CASE("an image that is added by its key in the library gives the bits of the picture") {
  for (const auto& [rows, bits] : {std::pair{16, 16}, {0, 16}, {8, 4}, {64, 2}, {3, 1}}) {
    CAPTURE(rows);
    CAPTURE(bits);
    TestLibrary shelf;
    const std::string boards[2] = {kBoards[0], kBoards[1]};
    Answer expected;
    LibraryKey keys[2];
    {
      const std::unique_ptr<Engine> engine = make_engine(shelf_limits(2, rows, bits));
      Session& session = open_with(*engine, shelf, "ann");
      for (int i = 0; i < 2; ++i) keys[i] = store(session, boards[i]);
      REQUIRE(set_library(session, nullptr, "").ok());
      expected = ask(session, boards, nullptr);
    }
    const std::unique_ptr<Engine> engine = make_engine(shelf_limits(2, rows, bits));
    Session& session = open_with(*engine, shelf, "ann");
    const Answer found = ask(session, boards, keys);
    test::check_equal(found, expected);
    CHECK(found.stats.library_hits == 2);
    CHECK(found.stats.library_misses == 0);
    CHECK(found.stats.encode_ms == 0);
    CHECK(found.stats.image_tokens == expected.stats.image_tokens);
    // Twice the same one, and then the conversation goes on.
    session.reset();
    REQUIRE(add_key(session, keys[1]).ok());
    REQUIRE(add_key(session, keys[1]).ok());
    CHECK(add_key(session, keys[1]).code() == Code::kFull);
    CHECK(answer_of(session, default_params(2)).status.ok());
  }
}

TEST_CASE("each session is told of its own picture, whatever others have stored since") {
  TestLibrary shelf;
  ocellus_limits limits = shelf_limits(1, 8);
  limits.max_sessions = 2;
  const std::unique_ptr<Engine> engine = make_engine(limits);
  Session& ann = open_with(*engine, shelf, "ann");
  Session& bob = open_with(*engine, shelf, "bob");
  REQUIRE(test::add_board(ann, "images/115.png").ok());
  REQUIRE(test::add_board(bob, "images/004.png").ok());
  for (Session* const session : {&ann, &bob}) {
    const SessionKeep& keep = library_of(*session)->outcome();
    REQUIRE(keep.outcome == SessionKeep::Outcome::kStored);
    LibraryEntry entry;
    bool found = false;
    REQUIRE(shelf.library.find_key(session == &ann ? "ann" : "bob", keep.last_key, &entry, &found).ok());
    CHECK(found);
  }
}

TEST_CASE("a picture cut into tiles comes from the library by its key with the texts around its views") {
  const test::TemporaryModel text(test::TextRecipe{.kv_heads = 2}, 31);
  const test::TemporaryModel vision(test::VisionRecipe{.longest_edge = 96}, 32);
  Model model;
  REQUIRE_MESSAGE(model.open(text.path().c_str(), vision.path().c_str()).ok(), last_failure().sentence);
  for (const auto& [width, height] : {std::pair{96, 64}, {33, 200}, {100, 37}}) {
    CAPTURE(width);
    TestLibrary shelf;
    const std::vector<uint8_t> pixels = testing::synthetic_pixels(width, height);
    Frame frame;
    frame.width = width;
    frame.height = height;
    frame.planes[0] = pixels.data();
    frame.stride_bytes[0] = int64_t{3} * width;
    const std::unique_ptr<Engine> engine = make_engine(model, shelf_limits(1, 5));
    Session& session = open_with(*engine, shelf, "ann");
    REQUIRE(session.add_text("See", false).ok());
    REQUIRE_MESSAGE(session.add_frame(frame).ok(), last_failure().sentence);
    const LibraryKey key = library_of(session)->outcome().last_key;
    const std::vector<float> expected = test::first_logits(session);
    const int64_t position = session.next_position();
    session.reset();
    REQUIRE(session.add_text("See", false).ok());
    REQUIRE_MESSAGE(add_key(session, key).ok(), last_failure().sentence);
    CHECK(test::first_logits(session) == expected);
    CHECK(session.next_position() == position);
  }
}

TEST_CASE("a session takes no entry that it may not see or that is not as it would have made it, and loses nothing") {
  TestLibrary shelf;
  REQUIRE(shelf.library.create_shared("root").ok());
  const std::unique_ptr<Engine> engine = make_engine(shelf_limits(2, 8, 4));
  Session& bob = open_with(*engine, shelf, "bob");
  const LibraryKey of_bob = store(bob, kBoards[0]);
  bob.close();
  Session& session = open_with(*engine, shelf, "ann");
  EntryLabels brief;
  brief.expires = shelf.clock.seconds + 10;
  REQUIRE(set_library_keep(session, brief, LibraryPart::kOwn, false).ok());
  const LibraryKey expired = store(session, kBoards[1]);
  REQUIRE(set_library_keep(session, {}, LibraryPart::kOwn, false).ok());
  const LibraryKey sound = store(session, kBoards[2]);
  LibraryKey guess = sound;
  guess.low ^= 1;
  shelf.clock.seconds += 10;

  struct Refused {
    LibraryKey key;
    Code code;
    std::string words;
  };
  const std::vector<Refused> all = {
      {of_bob, Code::kBadArgument, "has no entry"},
      {guess, Code::kBadArgument, "has no entry"},
      {expired, Code::kBadArgument, "has no entry"},
      {put_changed(shelf, sound, [](EntryFacts& facts) { ++facts.model.low; }), Code::kBadArgument, "another model"},
      {put_changed(shelf, sound, [](EntryFacts& facts) { facts.bits = 2; }), Code::kBadArgument,
       "2 bits, the session of 4"},
      {put_changed(shelf, sound, [](EntryFacts& facts) { facts.stored_input_rows = 4; }), Code::kBadArgument,
       "4 rows computed in place"},
      {put_changed(shelf, sound, [](EntryFacts& facts) { facts.block_rows = 7; }), Code::kBadArgument,
       "blocks of 7 slots"},
      {put_changed(shelf, sound, [](EntryFacts& facts) { ++facts.prefix_id; }), Code::kBadArgument, "other settings"},
      {put_changed(shelf, sound, [](EntryFacts& facts) { facts.tile_cols = 3; }), Code::kBadArgument, "other settings"},
      {put_changed(shelf, sound, [](EntryFacts& facts) { facts.view_count = 50; }), Code::kFull, "50 views"},
      {put_changed(shelf, sound, [](EntryFacts& facts) { facts.token_count = 500; }), Code::kBadArgument,
       "other settings"},
  };
  const std::string boards[2] = {kBoards[2], kBoards[2]};
  const LibraryKey keys[2] = {sound, sound};
  const Answer expected = ask(session, boards, keys);
  session.reset();
  REQUIRE(session.begin_turn().ok());
  REQUIRE(session.add_text("First:", false).ok());
  for (const Refused& refused : all) {
    CAPTURE(refused.words);
    CHECK(add_key(session, refused.key).code() == refused.code);
    CHECK_MESSAGE(sentence().find(refused.words) != std::string::npos, sentence());
  }
  for (int i = 0; i < 2; ++i) {
    REQUIRE(add_key(session, sound).ok());
    REQUIRE(session.add_text("and\n", false).ok());
  }
  REQUIRE(session.add_text("what differs?", false).ok());
  REQUIRE(session.end_turn().ok());
  test::check_equal(answer_of(session, default_params(16)), expected);
}

TEST_CASE("an entry that turns out damaged is refused, and the session goes on without it") {
  TestLibrary shelf;
  const std::unique_ptr<Engine> engine = make_engine(shelf_limits(2, 8));
  Session& session = open_with(*engine, shelf, "ann");
  const LibraryKey key = store(session, kBoards[0]), sound = store(session, kBoards[1]);
  std::fstream file(shelf.path_of(key), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(20000);
  file.put('\x5A');
  file.put('\x5B');
  file.close();
  REQUIRE(add_key(session, sound).ok());
  const std::vector<float> expected = test::first_logits(session);
  session.reset();
  CHECK(add_key(session, key).code() == Code::kBadFile);
  CHECK(shelf.aside_count() == 1);
  CHECK(add_key(session, key).code() == Code::kBadArgument);
  REQUIRE_MESSAGE(add_key(session, sound).ok(), last_failure().sentence);
  CHECK(test::first_logits(session) == expected);
}

TEST_CASE("a session without a library takes and searches nothing") {
  const std::unique_ptr<Engine> engine = make_engine(shelf_limits(1, 8));
  Session& session = open_session(*engine);
  Buffer<NearEntry> near;
  const std::vector<uint8_t> bytes = test::board_bytes(kBoards[0]);
  CHECK(add_key(session, {1, 2}).code() == Code::kBadArgument);
  CHECK(search_library(session, bytes.data(), std::ssize(bytes), 1, &near).code() == Code::kBadArgument);
  CHECK(set_library_keep(session, {}, LibraryPart::kOwn, false).code() == Code::kBadArgument);
}

TEST_CASE("a picture finds itself in the library, among what its owner sees, and disturbs no prompt") {
  TestLibrary shelf;
  const std::unique_ptr<Engine> engine = make_engine(shelf_limits(2, 8, 8));
  Session& other = open_with(*engine, shelf, "bob");
  store(other, kBoards[0]);
  other.close();
  Session& session = open_with(*engine, shelf, "ann");
  const LibraryKey first = store(session, kBoards[1]), second = store(session, kBoards[2]);
  const std::string boards[2] = {kBoards[1], kBoards[2]};
  const LibraryKey keys[2] = {first, second};
  const Answer expected = ask(session, boards, keys);
  session.reset();
  const auto search = [&](const std::string& board, int32_t count) {
    const std::vector<uint8_t> bytes = test::board_bytes(board);
    Buffer<NearEntry> near;
    const Status status = search_library(session, bytes.data(), std::ssize(bytes), count, &near);
    REQUIRE_MESSAGE(status.ok(), last_failure().sentence);
    return near;
  };
  const Buffer<NearEntry> near = search(kBoards[2], 10);
  REQUIRE(near.size() == 2);
  CHECK(near[0].key == second);
  CHECK(near[0].similarity > 0.99999f);
  CHECK(near[1].similarity < 0.99999f);
  const Buffer<NearEntry> unknown = search(kBoards[0], 1);
  CHECK(unknown.size() == 1);
  CHECK(unknown[0].similarity < 0.99999f);
  Buffer<NearEntry> none;
  const uint8_t noise[] = {1, 2, 3, 4};
  CHECK(search_library(session, noise, 4, 1, &none).code() == Code::kBadImage);

  REQUIRE(session.begin_turn().ok());
  REQUIRE(session.add_text("First:", false).ok());
  for (const LibraryKey& key : keys) {
    REQUIRE(add_key(session, key).ok());
    CHECK(search(kBoards[0], 1).size() == 1);
    REQUIRE(session.add_text("and\n", false).ok());
  }
  REQUIRE(session.add_text("what differs?", false).ok());
  REQUIRE(session.end_turn().ok());
  test::check_equal(answer_of(session, default_params(16)), expected);
}

TEST_CASE("images are kept as the session was told, and where") {
  TestLibrary shelf;
  REQUIRE(shelf.library.create_shared("root").ok());
  const std::unique_ptr<Engine> engine = make_engine(shelf_limits(1, 8));
  Session& session = open_with(*engine, shelf, "ann");
  CHECK(library_of(session)->outcome().outcome == SessionKeep::Outcome::kNone);
  EntryLabels labels;
  labels.tags.tags[labels.tags.count++].assign("kitchen");
  labels.caption.assign("a board");
  labels.pinned = true;
  labels.expires = shelf.clock.seconds + 100;
  CHECK(set_library_keep(session, labels, LibraryPart::kShared, true).code() == Code::kBadArgument);
  REQUIRE(set_library_keep(session, labels, LibraryPart::kOwn, true).ok());
  const LibraryKey own = store(session, kBoards[0]);
  CHECK(library_of(session)->outcome().outcome == SessionKeep::Outcome::kStored);
  LibraryItem item;
  bool found = false;
  REQUIRE(shelf.library.describe_entry("ann", own, &item, &found).ok());
  REQUIRE(found);
  CHECK(item.labels == labels);
  CHECK(store(session, kBoards[0]) == own);
  CHECK(library_of(session)->outcome().outcome == SessionKeep::Outcome::kFound);

  // The administrator's own entry does not stand for one in the shared part.
  REQUIRE(set_library(session, &shelf.library, "root").ok());
  store(session, kBoards[0]);
  CHECK(library_of(session)->outcome().outcome == SessionKeep::Outcome::kStored);
  REQUIRE(set_library_keep(session, {}, LibraryPart::kShared, true).ok());
  const LibraryKey shared = store(session, kBoards[0]);
  CHECK(library_of(session)->outcome().outcome == SessionKeep::Outcome::kStored);
  CHECK(library_of(session)->outcome().last_part == LibraryPart::kShared);
  REQUIRE(set_library(session, &shelf.library, "bob").ok());
  CHECK(store(session, kBoards[0]) == shared);
  CHECK(library_of(session)->outcome().outcome == SessionKeep::Outcome::kFound);
  REQUIRE_MESSAGE(add_key(session, shared).ok(), last_failure().sentence);
  session.reset();

  // A picture that cannot be stored is answered nevertheless, and the reason can be queried.
  REQUIRE(shelf.library.set_owner_quota("bob", 1000).ok());
  REQUIRE(test::add_board(session, kBoards[1]).ok());
  CHECK(library_of(session)->outcome().outcome == SessionKeep::Outcome::kFailed);
  ocellus_library_image image;
  CHECK(ocellus_session_get_library_image(reinterpret_cast<ocellus_session*>(&session), &image) == OCELLUS_FULL);
  CHECK(sentence().find("quota") != std::string::npos);
  CHECK(answer_of(session, default_params(2)).status.ok());
}

}  // namespace ocellus

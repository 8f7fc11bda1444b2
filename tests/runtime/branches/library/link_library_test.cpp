// Sessions that keep linked images in an image library, and find them there.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "runtime/branches/library/image_library.h"
#include "tests/support/cache_texts.h"
#include "tests/support/shelf.h"

namespace ocellus {
namespace {

using test::Answer;
using test::answer_golden;
using test::check_hits;
using test::default_params;
using test::golden;
using test::make_engine;
using test::open_session;
using test::open_with;
using test::Shelf;
using test::shelf_limits;

}  // namespace

TEST_CASE("an image from the library gives the bits of one that was computed, in any engine and at any place" *
          doctest::test_suite("long")) {
  struct Setting {
    int32_t rows, bits, reuse;
  };
  for (const auto& [rows, bits, reuse] : {Setting{16, 16, OCELLUS_REUSE_MPIC},
                                          {0, 16, OCELLUS_REUSE_FULL},
                                          {8, 4, OCELLUS_REUSE_MPIC},
                                          {64, 2, OCELLUS_REUSE_SPREAD},
                                          {3, 1, OCELLUS_REUSE_SPREAD},
                                          {5, 16, OCELLUS_REUSE_CARRY}}) {
    CAPTURE(rows);
    CAPTURE(bits);
    CAPTURE(reuse);
    Shelf shelf;
    Answer computed;
    {
      const std::unique_ptr<Engine> engine = make_engine(shelf_limits(4, rows, bits, reuse));
      Session& session = open_with(*engine, shelf, "robot");
      computed = answer_golden(session, 13, 24);
      check_hits(computed, 0, 4);
      session.reset();
      REQUIRE(set_library(session, nullptr, "").ok());
      test::check_equal(answer_golden(session, 13, 24), computed);
    }
    const std::unique_ptr<Engine> engine = make_engine(shelf_limits(4, rows, bits, reuse));
    Session& session = open_with(*engine, shelf, "robot");
    const Answer found = answer_golden(session, 13, 24);
    check_hits(found, 4, 0);
    CHECK(found.stats.encode_ms == 0);
    test::check_equal(found, computed);
    // The same pictures elsewhere.
    session.reset();
    REQUIRE(test::add_turn(session, "<image>What is on the left?", {golden(13).images[2]}).ok());
    check_hits(test::answer_of(session, default_params(4)), 1, 0);
  }
}

TEST_CASE("another owner, other rows in place and other bits find nothing in the library") {
  Shelf shelf;
  const std::unique_ptr<Engine> engine = make_engine(shelf_limits(1, 8));
  check_hits(answer_golden(open_with(*engine, shelf, "ann"), 1, 2), 0, 1);
  library_traffic(*engine).finish_writes();
  const std::unique_ptr<Engine> other = make_engine(shelf_limits(1, 8));
  check_hits(answer_golden(open_with(*other, shelf, "bob"), 1, 2), 0, 1);
  const std::unique_ptr<Engine> more_rows = make_engine(shelf_limits(1, 9));
  check_hits(answer_golden(open_with(*more_rows, shelf, "ann"), 1, 2), 0, 1);
  const std::unique_ptr<Engine> other_rows = make_engine(shelf_limits(1, 8, 16, OCELLUS_REUSE_SPREAD));
  check_hits(answer_golden(open_with(*other_rows, shelf, "ann"), 1, 2), 0, 1);
  library_traffic(*other_rows).finish_writes();
  const std::unique_ptr<Engine> carries = make_engine(shelf_limits(1, 8, 16, OCELLUS_REUSE_CARRY));
  check_hits(answer_golden(open_with(*carries, shelf, "ann"), 1, 2), 1, 0);  // the same rows, the same slots
  const std::unique_ptr<Engine> packed = make_engine(shelf_limits(1, 8, 4));
  check_hits(answer_golden(open_with(*packed, shelf, "ann"), 1, 2), 0, 1);
  ocellus_limits small_scales = shelf_limits(1, 8, 4);
  test::add_option(small_scales.cache.kv_scheme, "scales=6");
  const std::unique_ptr<Engine> scaled = make_engine(small_scales);
  check_hits(answer_golden(open_with(*scaled, shelf, "ann"), 1, 2), 0, 1);
  const std::unique_ptr<Engine> again = make_engine(shelf_limits(1, 8));
  check_hits(answer_golden(open_with(*again, shelf, "ann"), 1, 2), 1, 0);
}

TEST_CASE("an entry of the library that is damaged is computed again, and answers alike") {
  Shelf shelf;
  const std::unique_ptr<Engine> engine = make_engine(shelf_limits(1, 8, 8));
  Session& session = open_with(*engine, shelf, "ann");
  const Answer expected = answer_golden(session, 1, 16);
  for (const int64_t at : {int64_t{100}, int64_t{5000}, int64_t{-1}}) {
    CAPTURE(at);
    library_traffic(*engine).finish_writes();
    const std::vector<std::filesystem::path> files = shelf.files();
    REQUIRE(files.size() == 1);
    if (at < 0) {
      std::filesystem::resize_file(files[0], std::filesystem::file_size(files[0]) / 2);
    } else {
      std::fstream file(files[0], std::ios::in | std::ios::out | std::ios::binary);
      file.seekg(at);
      const char byte = static_cast<char>(file.get() ^ 4);
      file.seekp(at);
      file.put(byte);
    }
    session.reset();
    Answer answer = answer_golden(session, 1, 16);
    check_hits(answer, 0, 1);
    CHECK(answer.text == expected.text);
    CHECK(answer.stats.logits_hash == expected.stats.logits_hash);
    session.reset();
    answer = answer_golden(session, 1, 16);
    check_hits(answer, 1, 0);
    CHECK(answer.stats.logits_hash == expected.stats.logits_hash);
  }
}

TEST_CASE("an entry of the library holds nothing of what its blocks held before") {
  std::vector<std::byte> kept[2];
  for (const int32_t rows : {64, 8}) {
    for (const bool after_others : {false, true}) {
      Shelf shelf;
      const std::unique_ptr<Engine> engine = make_engine(shelf_limits(1, rows));
      Session& session = open_session(*engine);
      const test::Vector<std::byte> others(static_cast<size_t>(engine->shape().kv.block_bytes()), std::byte{0x5A});
      if (after_others)
        engine->queue().copy(engine->memory().pools.blocks.address(0), others.data(), std::ssize(others));
      REQUIRE(engine->queue().finish().ok());
      REQUIRE(set_library(session, &shelf.library, "ann").ok());
      answer_golden(session, 1, 2);
      library_traffic(*engine).finish_writes();
      LibraryKey key;
      const auto take_key = [](void* user, const LibraryItem& item) {
        *static_cast<LibraryKey*>(user) = item.key;
        return false;
      };
      REQUIRE(shelf.library.list("ann", take_key, &key).ok());
      LibraryEntry entry;
      bool found = false;
      REQUIRE(shelf.library.find_key("ann", key, &entry, &found).ok());
      REQUIRE(found);
      const int64_t width = engine->memory().linked.rows.cols;
      CHECK(entry.block_bytes(entry.facts().layer_count) == rows * (2 * width + 4));  // f16, and which row it is
      std::vector<std::byte>& bytes = kept[after_others ? 1 : 0];
      bytes.assign(static_cast<size_t>(entry.block_bytes(0)), std::byte{1});
      REQUIRE(entry.read_block(0, bytes, &found).ok());
      REQUIRE(found);
    }
    CHECK(kept[0] == kept[1]);
  }
}

TEST_CASE("a library that cannot be written keeps nobody from answering") {
  Shelf shelf;
  const std::unique_ptr<Engine> engine = make_engine(shelf_limits(1, 8));
  Session& session = open_with(*engine, shelf, "ann");
  const Answer expected = answer_golden(session, 1, 16);
  library_traffic(*engine).finish_writes();
  std::filesystem::remove_all(shelf.path);
  session.reset();
  const Answer answer = answer_golden(session, 1, 16);
  CHECK(answer.text == expected.text);
  CHECK(answer.stats.library_hits == 0);
}

TEST_CASE("a session takes a library only where one is planned, and of an owner with a name") {
  Shelf shelf;
  ocellus_limits limits = shelf_limits(1, 8);
  limits.library = 0;
  const std::unique_ptr<Engine> engine = make_engine(limits);
  CHECK(set_library(open_session(*engine), &shelf.library, "ann").code() == Code::kBadArgument);
  const std::unique_ptr<Engine> planned = make_engine(shelf_limits(1, 8));
  Session& session = open_session(*planned);
  for (const char* name : {"", "../ann", "a b", ".ann"})
    CHECK(set_library(session, &shelf.library, name).code() == Code::kBadArgument);
  CHECK(set_library(session, &shelf.library, "ann").ok());
  CHECK(set_library(session, nullptr, "").ok());
  check_hits(answer_golden(session, 1, 2), 0, 0);
}

}  // namespace ocellus

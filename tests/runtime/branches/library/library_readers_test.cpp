// Blocks of a library entry that several threads read.
#include "runtime/branches/library/library_readers.h"

#include <doctest/doctest.h>

#include <vector>

#include "tests/support/library.h"

namespace ocellus {
namespace {

using test::Contents;
using test::facts_of;
using test::TestLibrary;

/// An entry, and where its blocks go in one piece of memory.
struct Target {
  Target(TestLibrary& t, uint64_t image) {
    bool found = false;
    REQUIRE(t.library.find("ann", facts_of(image), &entry, &found).ok());
    REQUIRE(found);
    for (int32_t block = 0; block < entry.block_count(); ++block) {
      offsets.push_back(bytes);
      bytes += entry.block_bytes(block);
    }
    memory.assign(static_cast<size_t>(bytes), std::byte{0x5A});
  }
  void begin(BlockReaders& readers) { readers.begin(entry, entry.block_count(), offsets.data(), memory.data(), {}); }

  LibraryEntry entry;
  std::vector<int64_t> offsets;
  std::vector<std::byte> memory;
  int64_t bytes = 0;
};

}  // namespace

TEST_CASE("several threads read the bytes of one") {
  TestLibrary t;
  t.put("ann", Contents(1, 9));
  std::vector<std::byte> expected;
  for (const int threads : {0, 1, 3, BlockReaders::kMaxThreads}) {
    CAPTURE(threads);
    BlockReaders readers;
    REQUIRE(readers.start(threads).ok());
    for (int round = 0; round < 50; ++round) {
      Target target(t, 1);
      target.begin(readers);
      while (readers.help()) {
      }
      REQUIRE(readers.finish() == -1);
      if (expected.empty()) expected = target.memory;
      REQUIRE(target.memory == expected);
    }
  }
  std::vector<std::byte> one_by_one(expected.size());
  Target target(t, 1);
  for (int32_t block = 0; block < target.entry.block_count(); ++block) {
    bool found = false;
    const auto bytes = static_cast<size_t>(target.entry.block_bytes(block));
    std::byte* const to = one_by_one.data() + target.offsets[static_cast<size_t>(block)];
    REQUIRE(target.entry.read_block(block, {to, bytes}, &found).ok());
    REQUIRE(found);
  }
  CHECK(one_by_one == expected);
}

TEST_CASE("a damaged block is named, and the entry stays until somebody sets it aside") {
  TestLibrary t;
  const LibraryKey key = t.put("ann", Contents(1, 9));
  Target before(t, 1);
  const int64_t at = before.entry.block_offset(1);
  std::fstream file(t.path_of(key), std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(at);
  const char other = static_cast<char>(~0x5A);
  file.write(&other, 1);
  file.write(&other, 1);
  REQUIRE(file.flush());
  for (const int threads : {0, 3}) {
    BlockReaders readers;
    REQUIRE(readers.start(threads).ok());
    Target target(t, 1);
    target.begin(readers);
    while (readers.help()) {
    }
    CHECK(readers.finish() == 1);
    CHECK(std::filesystem::exists(t.path_of(key)));
  }
}

TEST_CASE("blocks that nobody wants any more are not begun") {
  TestLibrary t;
  t.put("ann", Contents(1, 9));
  BlockReaders readers;
  REQUIRE(readers.start(0).ok());
  Target target(t, 1);
  target.begin(readers);
  REQUIRE(readers.help());
  readers.drop();
  CHECK(!readers.help());
  CHECK(readers.finish() == -1);
  CHECK(target.memory[static_cast<size_t>(target.offsets[1])] == std::byte{0x5A});
}

}  // namespace ocellus

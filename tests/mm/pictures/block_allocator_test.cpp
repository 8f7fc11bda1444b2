#include "mm/pictures/block_allocator.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "tests/support/pictures.h"

using namespace ocellus;
using namespace ocellus::testing;

TEST_CASE("blocks are zeroed, aligned, apart from each other, and all come back") {
  GuardedScratch region(1 << 16);
  BlockAllocator allocator(region.extent());
  std::mt19937 random(3);
  struct Block {
    uint8_t* data;
    size_t bytes;
    uint8_t mark;
  };
  std::vector<Block> blocks;
  const auto check = [&](const Block& block) {
    REQUIRE(std::all_of(block.data, block.data + block.bytes, [&](uint8_t value) { return value == block.mark; }));
  };
  for (int round = 0; round < 20000; ++round) {
    const size_t bytes = random() % 2000 + 1;
    const int action = static_cast<int>(random() % 5);
    if (action < 3 || blocks.empty()) {
      auto* data = static_cast<uint8_t*>(allocator.take(bytes));
      if (data == nullptr) continue;
      REQUIRE(reinterpret_cast<uintptr_t>(data) % BlockAllocator::kAlignment == 0);
      REQUIRE(std::all_of(data, data + bytes, [](uint8_t value) { return value == 0; }));
      blocks.push_back({data, bytes, static_cast<uint8_t>(random() % 255 + 1)});
      std::memset(data, blocks.back().mark, bytes);
      continue;
    }
    const size_t at = random() % blocks.size();
    check(blocks[at]);
    allocator.give(blocks[at].data);
    blocks[at] = blocks.back();
    blocks.pop_back();
  }
  CHECK(allocator.refused_bytes() > 0);
  CHECK(allocator.high_water_bytes() <= 1 << 16);
  for (const Block& block : blocks) allocator.give(block.data);
  CHECK(allocator.empty());
  // Everything merged again: one block can have it all.
  CHECK(allocator.take((1 << 16) - BlockAllocator::kHeaderBytes - BlockAllocator::kAlignment) != nullptr);
  CHECK(region.intact());
}

TEST_CASE("requests that cannot be met return null and are remembered") {
  GuardedScratch region(1024);
  BlockAllocator allocator(region.extent());
  CHECK(allocator.take(2000) == nullptr);
  CHECK(allocator.refused_bytes() == 2000);
  CHECK(allocator.take(SIZE_MAX) == nullptr);
  CHECK(allocator.take(SIZE_MAX - 8) == nullptr);
  void* block = allocator.take(100);
  REQUIRE(block != nullptr);
  allocator.give(block);
  allocator.give(nullptr);
  CHECK(allocator.empty());
  CHECK(BlockAllocator(Extent()).take(1) == nullptr);
  CHECK(BlockAllocator({region.extent().data, 10}).take(1) == nullptr);
}

TEST_CASE("a region that starts anywhere is trimmed") {
  GuardedScratch region(1024);
  BlockAllocator allocator({region.extent().data + 3, 1000});
  void* block = allocator.take(900);
  REQUIRE(block != nullptr);
  CHECK(reinterpret_cast<uintptr_t>(block) % 16 == 0);
  std::memset(block, 7, 900);
  CHECK(region.intact());
}

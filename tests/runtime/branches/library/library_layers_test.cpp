// Layers of an entry that are handed over while later ones are still being read.
#include <doctest/doctest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "platform/queue.h"
#include "runtime/branches/library/library_traffic.h"
#include "runtime/cache/kv_pools.h"
#include "tests/support/library.h"
#include "tests/support/test_queue.h"

namespace ocellus {
namespace {

/// Reads that wait at an offset until they are let go.
class HeldFiles : public test::FaultyFiles {
 public:
  std::atomic<int64_t> held_from{INT64_MAX};
  int64_t read_at(int descriptor, int64_t offset, void* out, int64_t count) override {
    while (offset >= held_from.load()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return FaultyFiles::read_at(descriptor, offset, out, count);
  }
};

/// One entry of six layers, and a traffic with or without a memory tier.
struct Road {
  explicit Road(int64_t cached) {
    REQUIRE(library.open({.path = folder.c_str(), .files = &files, .clock = &clock}).ok());
    facts.layer_count = kv.layer_count;
    facts.stored_input_rows = 0;
    walk::Random random(3);
    for (int32_t layer = 0; layer <= kv.layer_count; ++layer) {
      blocks.emplace_back(static_cast<size_t>(entry_block_bytes(kv, facts, layer)));
      for (std::byte& byte : blocks.back()) byte = static_cast<std::byte>(random.bits());
      spans.emplace_back(blocks.back());
    }
    NewEntry entry;
    entry.facts = facts;
    entry.embedding = embedding;
    entry.blocks = spans;
    REQUIRE_MESSAGE(library.put("ann", LibraryPart::kOwn, entry, &key).ok(), last_failure().sentence);
    const int64_t bytes = entry_bytes(kv, facts);
    memory.resize(static_cast<size_t>((LibraryTraffic::kLoads + 1 + cached) * bytes));
    records.resize(static_cast<size_t>(cached) * sizeof(CachedEntry));
    TrafficMemory parts;
    parts.loads = {memory.data(), LibraryTraffic::kLoads, bytes};
    parts.store = {memory.data() + LibraryTraffic::kLoads * bytes, 1, bytes};
    parts.cache = {memory.data() + (LibraryTraffic::kLoads + 1) * bytes, cached, bytes};
    parts.cache_records = {records.data(), cached, int64_t{sizeof(CachedEntry)}};
    REQUIRE(traffic.start(kv, parts, 1, 2, {}, {}, {}).ok());
  }
  int64_t offset_of(int32_t layer) {
    LibraryEntry entry;
    bool found = false;
    REQUIRE(library.find_key("ann", key, &entry, &found).ok());
    REQUIRE(found);
    return entry.block_offset(layer);
  }
  EntryWish wish() {
    EntryWish out;
    out.library = &library;
    out.owner.assign("ann");
    out.facts = facts;
    return out;
  }
  std::string path() const { return folder / ("entries/" + std::string(key_text(key).text) + ".entry"); }
  int begin() {
    int load = -1;
    REQUIRE(traffic.begin_now(wish(), stop, *queue, &load).ok());
    return load;
  }
  LoadedEntry wait(int load, int64_t known) {
    LoadedEntry entry;
    REQUIRE(traffic.wait(load, known, stop, &entry).ok());
    return entry;
  }
  bool begins_with(const std::byte* bytes, int32_t layers) const {
    for (int32_t layer = 0; layer < layers; ++layer) {
      const std::vector<std::byte>& block = blocks[static_cast<size_t>(layer)];
      if (std::memcmp(bytes, block.data(), block.size()) != 0) return false;
      bytes += block.size();
    }
    return true;
  }

  const KvShape kv{.layer_count = 6, .kv_heads = 4, .head_dim = 64, .block_slots = 512, .image_slots = 512};
  test::Folder folder;
  HeldFiles files;
  test::SetClock clock;
  EntryFacts facts = test::facts_of(1);
  LibraryKey key;
  std::vector<std::vector<std::byte>> blocks;
  std::vector<std::span<const std::byte>> spans;
  std::vector<float> embedding = std::vector<float>(static_cast<size_t>(facts.embedding_width), 0.5f);
  std::vector<std::byte> memory, records;
  ImageLibrary library;
  test::TestQueue queue{1};
  StopSignal stop;
  LibraryTraffic traffic;
};

}  // namespace

TEST_CASE("the first layers of an entry are there while the last ones are being read") {
  for (const int64_t cached : {0, 1}) {
    CAPTURE(cached);
    Road road(cached);
    const int64_t layer_bytes = std::ssize(road.blocks[0]);
    road.files.held_from = road.offset_of(4);
    const int load = road.begin();
    LoadedEntry entry;
    while (entry.byte_count < 3 * layer_bytes) {
      entry = road.wait(load, entry.byte_count);
      REQUIRE(!entry.is_whole);
      REQUIRE(entry.byte_count % layer_bytes == 0);
    }
    CHECK(entry.byte_count <= 4 * layer_bytes);
    CHECK(road.begins_with(entry.bytes, static_cast<int32_t>(entry.byte_count / layer_bytes)));
    road.files.held_from = INT64_MAX;
    while (!entry.is_whole) entry = road.wait(load, entry.byte_count);
    REQUIRE(entry.bytes != nullptr);
    CHECK(entry.byte_count == entry_bytes(road.kv, road.facts));
    CHECK(road.begins_with(entry.bytes, road.kv.layer_count));
    CHECK(!entry.from_memory);
    road.traffic.end(load, *road.queue);
    const int again = road.begin();
    entry = road.wait(again, 0);
    while (!entry.is_whole) entry = road.wait(again, entry.byte_count);
    CHECK(entry.from_memory == (cached > 0));
    CHECK(road.begins_with(entry.bytes, road.kv.layer_count));
    road.traffic.end(again, *road.queue);
  }
}

TEST_CASE("an entry whose last layer is damaged is withdrawn after its first ones were handed over") {
  for (const int64_t cached : {0, 1}) {
    CAPTURE(cached);
    Road road(cached);
    const int64_t last = road.offset_of(5);
    std::fstream file(road.path(), std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(last + 7);
    file.put(static_cast<char>(~road.blocks[5][7]));
    REQUIRE(file.flush());
    road.files.held_from = last;
    const int load = road.begin();
    LoadedEntry entry = road.wait(load, 0);
    CHECK(entry.bytes != nullptr);
    CHECK(!entry.is_whole);
    road.files.held_from = INT64_MAX;
    while (!entry.is_whole) entry = road.wait(load, entry.byte_count);
    CHECK(entry.bytes == nullptr);
    road.traffic.end(load, *road.queue);
    const int again = road.begin();
    entry = road.wait(again, 0);
    CHECK(entry.is_whole);
    CHECK(entry.bytes == nullptr);
    road.traffic.end(again, *road.queue);
  }
}

TEST_CASE("a stop while an entry is being read leaves its load to be abandoned, and the next one works") {
  Road road(1);
  road.files.held_from = road.offset_of(2);
  const int load = road.begin();
  LoadedEntry entry = road.wait(load, 0);
  road.stop.cancel();
  while (road.traffic.wait(load, entry.byte_count, road.stop, &entry).ok()) CHECK(!entry.is_whole);
  road.stop.acknowledge();
  road.traffic.abandon(load);
  road.files.held_from = INT64_MAX;
  const int again = road.begin();
  entry = road.wait(again, 0);
  while (!entry.is_whole) entry = road.wait(again, entry.byte_count);
  CHECK(entry.bytes != nullptr);
  CHECK(road.begins_with(entry.bytes, road.kv.layer_count));
  road.traffic.end(again, *road.queue);
}

}  // namespace ocellus

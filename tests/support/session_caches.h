// Pools and caches over memory of their own, for the tests of both.
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <numeric>
#include <vector>

#include "runtime/cache/kv_cache.h"

namespace ocellus::test {

inline constexpr int64_t kMemoryBytes = int64_t{1} << 20;
inline constexpr int32_t kLayers = 2, kHeads = 2, kDim = 8;

/// Two layers of two heads of eight channels.
inline KvShape shape_of(KvFormat format, int32_t image_slots, int32_t block_slots) {
  KvShape shape{.layer_count = kLayers, .kv_heads = kHeads, .head_dim = kDim, .format = format};
  shape.image_slots = image_slots;
  shape.block_slots = block_slots;
  return shape;
}

/// Pools for `sessions` caches over memory of their own.
class Caches {
 public:
  Caches(int32_t sessions, KvShape shape, const SessionLimits& each, int64_t page_count, int64_t block_count)
      : memory_(new (std::align_val_t{kRowAlignment}) std::byte[kMemoryBytes]), caches_(static_cast<size_t>(sessions)) {
    REQUIRE(arena_.add_extent({memory_.get(), kMemoryBytes}).ok());
    shape.page_count = page_count;
    shape.block_count = block_count;
    REQUIRE(pools_.lay_out(shape, arena_).ok());
    for (SessionCache& cache : caches_) {
      REQUIRE(cache.lay_out(shape, each, arena_).ok());
      cache.attach(&pools_);
    }
  }
  SessionCache& operator[](int32_t i) { return caches_[static_cast<size_t>(i)]; }
  KvPools& pools() { return pools_; }
  const KvShape& shape() const { return pools_.shape; }

 private:
  struct Free {
    void operator()(std::byte* bytes) const { ::operator delete[](bytes, std::align_val_t{kRowAlignment}); }
  };
  std::unique_ptr<std::byte[], Free> memory_;
  Arena arena_;
  KvPools pools_;
  std::vector<SessionCache> caches_;
};

/// Images of six f16 slots with blocks of their own.
inline Caches plain_caches(int32_t sessions, int64_t pages, int64_t images, int64_t page_count, int64_t block_count) {
  return Caches(sessions, shape_of(KvFormat::kF16, 6, 6), {pages, images, images, 0}, page_count, block_count);
}

/// Reserves and commits text whose first slot stands at `position`.
inline void add_text(SessionCache& cache, int64_t count, int64_t position = 0) {
  REQUIRE(cache.reserve_text(count).ok());
  for (int64_t i = 0; i < count; ++i) cache.note_text_position(cache.text_slots() + i, position + i);
  cache.commit_text(count);
}

inline void add_image(SessionCache& cache, int32_t slots, int64_t position = 0) {
  int32_t ordinal = -1;
  REQUIRE(cache.reserve_image(&ordinal).ok());
  CHECK(ordinal == cache.image_count());
  cache.note_image_position(ordinal, position);
  cache.commit_image(ordinal, slots, slots);
}

inline std::vector<KvRun> live_runs(const SessionCache& cache, const TileLimits& limits = {}) {
  std::vector<KvRun> runs(1000);
  runs.resize(static_cast<size_t>(cache.list_live(limits, runs.data())));
  return runs;
}

inline int64_t slots_in(const std::vector<KvRun>& runs) {
  return std::accumulate(runs.begin(), runs.end(), int64_t{0},
                         [](int64_t sum, const KvRun& run) { return sum + run.slots; });
}

}  // namespace ocellus::test

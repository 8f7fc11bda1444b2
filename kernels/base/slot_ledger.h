// SlotLedger: positions and attention sums of every cache slot, for policies that evict during answers. Indexed by slot
// of the pool of pages, then of the pool of packed blocks, for every layer and key/value head: slots hold different
// rows in different heads.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/base/kv_run.h"
#include "platform/views.h"

namespace ocellus {

/// Marker in place of a position: the slot is never dropped.
inline constexpr int32_t kStays = INT32_MAX;

struct SlotLedger {
  DeviceView<int32_t> positions = {};  // [layers * G, slots of both pools] position of the slot's row, or kStays
  DeviceView<float> sums = {};         // [layers * G, slots of both pools] attention to the row so far; may be empty
  DeviceView<float> latest = {};       // attention by the newest token, not yet in the sums; empty like them
  const std::byte* pages = nullptr;    // the pool's memory
  int64_t page_bytes = 0;
  int32_t page_slots = 1;
  int32_t block_slots = 1;
  const std::byte* blocks = nullptr;  // memory of the pool of packed blocks
  int64_t block_bytes = 1;
  int64_t first_block_slot = 0;  // column of its first slot

  bool kept() const { return positions.data != nullptr; }

  /// Column of slot 0 of a run, which lies in one page or one block.
  OCELLUS_EVERYWHERE int64_t first_slot(const KvRun& run) const {
    if (run.packed) return first_block_slot + (run.data - blocks) / block_bytes * block_slots + run.first;
    return (run.data - pages) / page_bytes * page_slots + run.first;
  }
};

/// The live count of a run's list in one layer and head, layer * G + head, for ops that change it: it lies in device
/// memory that others only read.
OCELLUS_EVERYWHERE inline int32_t& live_count(const KvRun& run, int64_t line) {
  return const_cast<int32_t*>(run.counts)[line];
}

/// Returns the tile, before tile `end`, and the slot in it where the newest list of f16 survivors goes on in one layer
/// and head; -1 if the list is full or there is none.
OCELLUS_EVERYWHERE inline int32_t find_spare(const KvRun* tiles, int32_t end, int64_t line, int32_t* slot) {
  for (int32_t i = end - 1; i >= 0; --i) {
    if (tiles[i].packed || tiles[i].counts == nullptr) continue;
    *slot = tiles[i].counts[line] - tiles[i].counted_before - tiles[i].first;
    if (*slot >= 0) return *slot < tiles[i].slots ? i : -1;
  }
  return -1;
}

/// Order of eviction, smallest first: by the smallest sum, among equals the newest row. A NaN sum is last.
OCELLUS_EVERYWHERE inline uint64_t order_by_sum(float sum, int32_t position) {
  uint32_t bits = 0;
  std::memcpy(&bits, &sum, sizeof bits);
  bits = sum != sum ? 0xFFFFFFFFu : (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return uint64_t{bits} << 32 | (0xFFFFFFFFu - static_cast<uint32_t>(position));
}
/// Order of eviction, oldest first.
OCELLUS_EVERYWHERE inline uint64_t order_by_age(int32_t position) { return static_cast<uint32_t>(position); }
inline constexpr uint64_t kNothingGoes = UINT64_MAX;

}  // namespace ocellus

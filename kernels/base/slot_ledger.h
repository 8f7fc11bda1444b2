// SlotLedger: positions and attention sums of every f16 cache slot, for policies that evict during answers. Indexed by
// slot of the pool of pages, for every layer and key/value head: slots hold different rows in different heads.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/base/kv_run.h"
#include "platform/views.h"

namespace ocellus {

/// Marker in place of a position: the slot is never dropped.
inline constexpr int32_t kStays = INT32_MAX;

struct SlotLedger {
  DeviceView<int32_t> positions = {};  // [layers * G, pool slots] position of the slot's row, or kStays
  DeviceView<float> sums = {};         // [layers * G, pool slots] attention to the row so far; may be empty
  DeviceView<float> latest = {};       // attention by the newest token, not yet in the sums; empty like them
  const std::byte* pages = nullptr;    // the pool's memory
  int64_t page_bytes = 0;
  int32_t page_slots = 1;

  bool kept() const { return positions.data != nullptr; }

  /// Column of slot 0 of an f16 run, which lies in one page.
  OCELLUS_EVERYWHERE int64_t first_slot(const KvRun& run) const {
    return (run.data - pages) / page_bytes * page_slots + run.first;
  }
};

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

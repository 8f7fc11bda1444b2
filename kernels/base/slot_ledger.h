// SlotLedger: what is known of every f16 cache slot beside its key and value, where a policy goes on dropping slots
// while a session answers. By slot of the pool of pages, for every layer and key/value head: slots hold different rows
// in different heads.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/base/kv_run.h"
#include "platform/views.h"

namespace ocellus {

/// In place of a position: the slot is never dropped.
inline constexpr int32_t kStays = INT32_MAX;

struct SlotLedger {
  DeviceView<int32_t> positions = {};  // [layers * G, pool slots] of the slot's row; kStays
  DeviceView<float> sums = {};         // [layers * G, pool slots] attention the row was given so far; may be empty
  DeviceView<float> latest = {};       // by the newest token, not yet among the sums; empty with them
  const std::byte* pages = nullptr;    // of the pool
  int64_t page_bytes = 0;
  int32_t page_slots = 1;

  bool kept() const { return positions.data != nullptr; }

  /// Column of slot 0 of an f16 run, which lies in one page.
  OCELLUS_EVERYWHERE int64_t first_slot(const KvRun& run) const {
    return (run.data - pages) / page_bytes * page_slots + run.first;
  }
};

/// What goes first has the least order: the least sum, among equals the newest row. Greater than all where a sum is not
/// a number.
OCELLUS_EVERYWHERE inline uint64_t order_by_sum(float sum, int32_t position) {
  uint32_t bits = 0;
  std::memcpy(&bits, &sum, sizeof bits);
  bits = sum != sum ? 0xFFFFFFFFu : (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return uint64_t{bits} << 32 | (0xFFFFFFFFu - static_cast<uint32_t>(position));
}
/// The same where the oldest goes first.
OCELLUS_EVERYWHERE inline uint64_t order_by_age(int32_t position) { return static_cast<uint32_t>(position); }
inline constexpr uint64_t kNothingGoes = UINT64_MAX;

}  // namespace ocellus

// KvRun: a stretch of cache slots as attention sees it.
//
// A session's cache is a list of runs (text pages, image slots). In the past of every query their order does not
// matter: keys were rotated at the position where they were computed, so a run carries no positions.
//
//   data + layer * layer_stride + head * head_stride                  keys   [capacity, E] f16
//   data + layer * layer_stride + head * head_stride + value_offset   values [capacity, E] f16
#pragma once

#include <cstddef>
#include <cstdint>

#include "platform/views.h"

namespace ocellus {

enum class KvFormat : uint8_t { kF16 = 0 };  // packed formats follow

struct KvRun {
  std::byte* data = nullptr;
  int64_t layer_stride = 0;  // bytes
  int64_t head_stride = 0;   // bytes
  int64_t value_offset = 0;  // bytes
  int32_t slots = 0;         // live slots, <= capacity
  int32_t capacity = 0;
  /// Positions the run was moved by since it was computed: it is read with a query rotated by -position_shift.
  int32_t position_shift = 0;
  KvFormat format = KvFormat::kF16;
};

/// Most slots of a run on CUDA: runs are handed to attention there in pieces of at most this many, so that a list of
/// runs is a list of equal tiles.
inline constexpr int32_t kTileSlots = 16;

/// One slot of an f16 run, in every layer and head.
struct KvSlot {
  std::byte* key = nullptr;  // of layer 0 and head 0
  int64_t layer_stride = 0;
  int64_t head_stride = 0;
  int64_t value_offset = 0;
};
inline KvSlot run_slot(const KvRun& run, int64_t slot, int64_t head_dim) {
  return {run.data + slot * head_dim * 2, run.layer_stride, run.head_stride, run.value_offset};
}
/// Slots [first, first + count) of an f16 run as a run of their own.
inline KvRun slice_run(const KvRun& run, int32_t first, int32_t count, int64_t head_dim) {
  KvRun part = run;
  part.data += first * head_dim * 2;
  part.slots = count;
  part.capacity = run.capacity - first;
  return part;
}

/// Keys [capacity, E] and values [capacity, E] of one layer and key/value head of an f16 run.
inline Half* run_keys(const KvRun& run, int64_t layer, int64_t head) {
  return reinterpret_cast<Half*>(run.data + layer * run.layer_stride + head * run.head_stride);
}
inline Half* run_values(const KvRun& run, int64_t layer, int64_t head) {
  return reinterpret_cast<Half*>(run.data + layer * run.layer_stride + head * run.head_stride + run.value_offset);
}

}  // namespace ocellus

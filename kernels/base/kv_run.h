// KvRun: a contiguous range of cache slots, as attention reads it.
//
// A session's cache is a list of runs (text pages, image slots, survivors of an eviction). In the past of every query
// their order does not matter: keys were rotated at the position where they were computed, so a run carries no
// positions. Per layer and key/value head a run is one block (quant/kv_format.h):
//
//   block(run, layer, head) = data + layer * layer_stride + head * head_stride   f16
//                             data + layer.offset + head * (bytes of a block)    packed: layers may differ in bits
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "platform/views.h"
#include "quant/kv_format.h"

namespace ocellus {

/// A layer of a call: its index, and the format of packed runs in it. The packed runs of a call have blocks of equal
/// size, or equal spacing between their layers, so that one offset fits all.
struct KvLayer {
  int32_t index = 0;
  KvFormat format = KvFormat::kF16;  // format of packed runs; kF16: there are none
  KvScaleForm scales = KvScaleForm::kF16;
  int64_t offset = 0;  // bytes from a packed run's data to the layer's head 0
};

struct KvRun {
  std::byte* data = nullptr;  // layer 0 and head 0. f16: keys of slot `first`; packed: the block's scales
  int64_t layer_stride = 0;   // bytes, as all strides here. f16 only: those of packed runs follow from KvLayer
  int64_t head_stride = 0;
  int64_t value_offset = 0;  // from a slot's keys to its values
  int32_t slots = 0;         // live slots, <= capacity
  int32_t capacity = 0;      // from slot `first` on
  int32_t first = 0;         // slot of the block where the run begins
  int32_t counted_before = 0;
  /// Live slots by layer and head if they differ: counts[layer * heads + head], for a list in which this run's block
  /// follows `counted_before` others. The run then has as many of its `slots` as the count reaches. In device memory.
  /// Null: `slots` everywhere.
  const int32_t* counts = nullptr;
  /// Distance that the run has moved since it was computed: it is read with a query rotated by -position_shift.
  int32_t position_shift = 0;
  bool packed = false;  // with the bits of KvLayer
  /// True if calibration applies to its slots: packed runs, and f16 copies made of them for prefill.
  bool calibrated = false;
  /// First row of the current chunk that sees the run: a run among the chunk's rows (an image whose slots come from
  /// elsewhere), or 0: before them all.
  uint16_t visible_from = 0;
};
static_assert(sizeof(KvRun) == 64, "copied in words of 8 bytes, and by the cache line");

/// Maximum slots of a run in a list for attention on CUDA, of an f16 run and of a packed one: longer runs are split, so
/// that a list of runs is a list of tiles.
inline constexpr int32_t kTileSlots = 16;
inline constexpr int32_t kPackedTileSlots = 64;
/// The same for packed runs while decoding: if values have scales by token, a tile is expanded as it is loaded.
constexpr int32_t packed_tile_slots(KvScaleForm scales) {
  return scales == KvScaleForm::kByToken ? kTileSlots : kPackedTileSlots;
}

/// Maximum channels of a head, E.
inline constexpr int32_t kMaxHeadDim = 512;

/// One slot of an f16 run, in every layer and head.
struct KvSlot {
  std::byte* key = nullptr;  // layer 0 and head 0
  int64_t layer_stride = 0;
  int64_t head_stride = 0;
  int64_t value_offset = 0;
};
inline KvSlot run_slot(const KvRun& run, int64_t slot, int64_t head_dim) {
  return {run.data + slot * head_dim * 2, run.layer_stride, run.head_stride, run.value_offset};
}
/// Returns slots [first, first + count) of a run as a run.
inline KvRun slice_run(const KvRun& run, int32_t first, int32_t count, int64_t head_dim) {
  KvRun part = run;
  if (!run.packed) part.data += first * head_dim * 2;
  part.first += first;
  part.slots = count;
  part.capacity = run.capacity - first;
  return part;
}

/// Live slots of one layer and head.
OCELLUS_EVERYWHERE inline int32_t live_slots(const KvRun& run, int64_t layer, int64_t heads, int64_t head) {
  if (run.counts == nullptr) return run.slots;
  const int32_t reached = run.counts[layer * heads + head] - run.counted_before - run.first;
  return reached < 0 ? 0 : reached < run.slots ? reached : run.slots;
}

/// True if KvCalibration applies to the run's slots.
inline bool is_calibrated(const KvRun& run) { return run.calibrated || run.packed; }

/// Keys [capacity, E] and values [capacity, E] of one layer and key/value head of an f16 run.
OCELLUS_EVERYWHERE inline Half* run_keys(const KvRun& run, int64_t layer, int64_t head) {
  return reinterpret_cast<Half*>(run.data + layer * run.layer_stride + head * run.head_stride);
}
OCELLUS_EVERYWHERE inline Half* run_values(const KvRun& run, int64_t layer, int64_t head) {
  return reinterpret_cast<Half*>(run.data + layer * run.layer_stride + head * run.head_stride + run.value_offset);
}

/// Codes of the keys or of the values of a run's slots, a row each.
struct CodeMatrix {
  const uint8_t* data;
  int64_t row_bytes;
  int32_t bits;

  OCELLUS_EVERYWHERE const uint8_t* row(int64_t slot) const { return data + slot * row_bytes; }
};

/// The part of a packed run in one layer and key/value head. E channels.
struct PackedRows {
  const std::byte* block;  // begins with the scales
  CodeMatrix keys, values;
  int32_t head_dim;
  KvScaleForm scales;
  int32_t first;  // slot of the block where the run begins

  OCELLUS_EVERYWHERE bool by_token() const { return scales == KvScaleForm::kByToken; }
  /// Scales by token: offset and step, adjacent, of each group of a slot's value.
  OCELLUS_EVERYWHERE const Half* token_scales(int64_t slot) const {
    return reinterpret_cast<const Half*>(block + KvBlockLayout::token_scales_at(head_dim) +
                                         (first + slot) * KvBlockLayout::token_scale_bytes(head_dim));
  }
};
OCELLUS_EVERYWHERE inline PackedRows packed_rows(const KvRun& run, const KvLayer& layer, int64_t head,
                                                 int32_t head_dim) {
  const KvBlockLayout layout =
      KvBlockLayout::of(layer.format, head_dim, int64_t{run.first} + run.capacity, layer.scales);
  const std::byte* block = run.data + layer.offset + head * layout.padded_bytes;
  const auto* keys = reinterpret_cast<const uint8_t*>(block + layout.keys) + run.first * layout.key_row_bytes;
  const auto* values = reinterpret_cast<const uint8_t*>(block + layout.values) + run.first * layout.value_row_bytes;
  return {block,
          {keys, layout.key_row_bytes, key_bits(layer.format)},
          {values, layout.value_row_bytes, value_bits(layer.format)},
          head_dim,
          layer.scales,
          run.first};
}

/// CalibQuant's calibration of the scores of packed slots (paper, section 4.2; as in the authors' code, visual scores
/// only). Per query row and head, with the minimum `low` and the maximum `high` of the scores of all packed slots seen
/// in this step (natural units: q . k / sqrt(E)):
///
///   g(u) = low - tau_low + slope (u - low),   slope = max(0, (high - low + tau_low - tau_high) / (high - low + 1e-8))
///
/// A query head that sees fewer than two packed slots is not calibrated.
struct KvCalibration {
  bool on = false;
  float tau_low = 0;   // tau_1 of the paper
  float tau_high = 0;  // tau_2

  /// `spread`: high - low.
  OCELLUS_EVERYWHERE float slope(float spread) const {
    return std::fmax(0.0f, (spread + tau_low - tau_high) / (spread + 1e-8f));
  }
  /// g(score).
  OCELLUS_EVERYWHERE float apply(float score, float low, float slope) const {
    return low - tau_low + slope * (score - low);
  }
};

}  // namespace ocellus

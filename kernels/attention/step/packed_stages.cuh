// The stages in which a warp's packed tiles are copied to shared memory.
#pragma once

#include "kernels/attention/step/packed_codes.h"
#include "kernels/attention/step/packed_tiles.cuh"

namespace ocellus::cuda {

__device__ inline void copy_4_async(void* to, const void* from, int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(shared_address(to)), "l"(from), "r"(bytes));
}

/// The packed tiles of one warp are copied to shared memory in stages of up to kSlots slots: keys and, with kParts = 2,
/// values after them. Unit u of slot s (16 bytes) lies at 16 (u kSlots + s), so that the rows of 8 x 8 matrices follow
/// each other. Units beyond a row's end stay unset: queries are zero there, and outputs are not written. If keys and
/// values differ in bits, the narrower codes are widened in shared memory, so that no kernel is compiled for a pair.
/// Where both parts are too large together, they are stages of their own, one after the other.
template <class Shape, int kParts>
class TileRing {
 public:
  static constexpr int kMaxBytes = 8192;  // per warp, so that two blocks of eight share a multiprocessor
  static constexpr bool kApart = kParts == 2 && 2 * Shape::kPartBytes > kMaxBytes;
  static constexpr int kStageBytes = (kApart ? 1 : kParts) * Shape::kPartBytes;
  static constexpr int kStages = kStageBytes > kMaxBytes       ? 1
                                 : kMaxBytes / kStageBytes < 4 ? kMaxBytes / kStageBytes
                                                               : 4;
  static constexpr int kBytes = kStages * kStageBytes;

  /// Begins to fetch all stages but one.
  __device__ TileRing(const StepTile* tiles, int count, const StepStorage& layer, std::byte* room)
      : tiles_(tiles), room_(room), count_(count), key_row_(layer.key_row_bytes), value_row_(layer.value_row_bytes) {
    for (int i = 0; i < kStages - 1; ++i) fetch_next();
  }
  /// Returns the keys of the next stage, once the one before is no longer read. All lanes call it together.
  __device__ const std::byte* next() {
    std::byte* stage = take();
    if constexpr (Shape::kBits > 1) {
      if (key_row_ < value_row_) widen(stage, key_row_, value_row_);
      if (kParts == 2 && !kApart && value_row_ < key_row_) widen(stage + Shape::kPartBytes, value_row_, key_row_);
    }
    return stage;
  }
  /// Returns the values that belong to `keys`, which are no longer read if the parts lie apart.
  __device__ const std::byte* values_of(const std::byte* keys) {
    static_assert(kParts == 2);
    if constexpr (kApart) {
      std::byte* stage = take();
      if (value_row_ < key_row_) widen(stage, value_row_, key_row_);
      return stage;
    } else {
      return keys + Shape::kPartBytes;
    }
  }

 private:
  __device__ std::byte* take() {
    __syncwarp();
    fetch_next();
    wait_for_copies<kStages - 1>();
    __syncwarp();
    std::byte* stage = room_ + taken_ * kStageBytes;
    taken_ = taken_ + 1 == kStages ? 0 : taken_ + 1;
    return stage;
  }
  __device__ void fetch_next() {
    if (tile_ < count_) {
      const StepTile& tile = tiles_[tile_];
      const int count = tile.count, live = count - first_;
      std::byte* to = room_ + fetched_ * kStageBytes;
      const bool of_values = kApart && values_next_;
      if (!of_values) copy_part(tile.keys + first_ * key_row_, key_row_, live, to);
      if (kParts == 2 && (!kApart || of_values))
        copy_part(tile.keys + tile.value_offset + first_ * value_row_, value_row_, live,
                  to + (kApart ? 0 : Shape::kPartBytes));
      fetched_ = fetched_ + 1 == kStages ? 0 : fetched_ + 1;
      values_next_ = kApart && !of_values;
      if (values_next_) return commit_copies();
      first_ += Shape::kSlots;
      if (first_ >= count) {
        first_ = 0;
        ++tile_;
      }
    }
    commit_copies();
  }
  __device__ void copy_part(const std::byte* from, int row_bytes, int live, std::byte* to) const {
    constexpr int kUnits = Shape::kUnits, kSlots = Shape::kSlots;
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    if (row_bytes < max(key_row_, value_row_)) return copy_narrow_rows(from, row_bytes, live, to, lane);
    if (row_bytes != 16 * kUnits) return copy_short_rows(from, row_bytes, live, to, lane);
#pragma unroll
    for (int i = 0; i < kUnits * kSlots / kWarp; ++i) {
      // Eight slots of one unit fill all banks, and the lanes together whole rows.
      const int index = kWarp * i + lane, unit = index / 8 % kUnits, slot = index / 8 / kUnits * 8 + index % 8;
      copy_16_async(to + 16 * (unit * kSlots + slot), from + 16 * (slot * kUnits + unit), slot < live ? 16 : 0);
    }
  }
  /// Copies rows that do not fill their units, aligned to 16 bytes or 4.
  __device__ void copy_short_rows(const std::byte* from, int row_bytes, int live, std::byte* to, int lane) const {
    constexpr int kSlots = Shape::kSlots;
    const bool is_wide = row_bytes % 16 == 0;
#pragma unroll 1
    for (int byte = 0; byte < row_bytes; byte += is_wide ? 16 : 4) {
#pragma unroll 1
      for (int slot = lane; slot < kSlots; slot += kWarp) {
        std::byte* place = to + 16 * (byte / 16 * kSlots + slot) + byte % 16;
        if (is_wide)
          copy_16_async(place, from + slot * row_bytes + byte, slot < live ? 16 : 0);
        else
          copy_4_async(place, from + slot * row_bytes + byte, slot < live ? 4 : 0);
      }
    }
  }

  /// Copies rows of fewer bits than the shape's: the bytes that will fill a unit lie at its beginning.
  __device__ void copy_narrow_rows(const std::byte* from, int row_bytes, int live, std::byte* to, int lane) const {
    constexpr int kSlots = Shape::kSlots;
    const int words = row_bytes / 4, unit_bytes = 16 * row_bytes / max(key_row_, value_row_);
#pragma unroll 1
    for (int i = lane; i < kSlots * words; i += kWarp) {
      const int slot = i / words, byte = 4 * (i % words);
      copy_4_async(to + 16 * (byte / unit_bytes * kSlots + slot) + byte % unit_bytes, from + 4 * i,
                   slot < live ? 4 : 0);
    }
  }
  /// Gives such rows the shape's bits. All lanes call it together.
  __device__ void widen(std::byte* part, int row_bytes, int wide_bytes) const {
    const int halvings = wide_bytes / row_bytes / 2, units = divide_up(wide_bytes, 16) * Shape::kSlots;
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x) % kWarp; i < units; i += kWarp) {
      const uint2 words = *reinterpret_cast<const uint2*>(part + 16 * i);
      uint32_t to[4];
      widen_unit<Shape::kBits>(halvings, {words.x, words.y}, to);
      *reinterpret_cast<uint4*>(part + 16 * i) = make_uint4(to[0], to[1], to[2], to[3]);
    }
    __syncwarp();
  }

  const StepTile* tiles_;
  std::byte* room_;
  int count_, key_row_, value_row_;
  int tile_ = 0, first_ = 0;     // next to fetch
  int fetched_ = 0, taken_ = 0;  // stages
  bool values_next_ = false;     // to fetch, if the parts lie apart
};

}  // namespace ocellus::cuda

// One warp's iteration over its tiles if they may be packed: packed ones, then f16 ones.
#pragma once

#include "kernels/attention/step/packed_stages.cuh"
#include "kernels/attention/step/packed_sums.cuh"
#include "kernels/attention/step/rotate_queries.cuh"
#include "kernels/attention/step/score_ranges.cuh"

namespace ocellus::cuda {

template <class Shape>
struct alignas(16) PackedRoom {
  StepRoom<Shape::kChunks> step;
  StepTile tiles[kStepWarps][kWarp];
  int slots[kStepWarps];  // find_ranges: packed ones
};

/// A warp's part of the dynamic shared memory: stages, at the end its sums; queries rotated for shifted tiles.
template <class Shape, int kParts>
struct PackedWarpRoom {
  static constexpr int kTurnedStride = 64 * Shape::kChunks + 8;
  std::byte* stages;
  __half* turned;  // [heads, kTurnedStride]

  __device__ PackedWarpRoom(float4* shared, int warp, int heads, int dim)
      : stages(reinterpret_cast<std::byte*>(shared + warp * units(heads, dim))),
        turned(reinterpret_cast<__half*>(stages) + 8 * (units(heads, dim) - turned_units(heads))) {}

  static __host__ __device__ constexpr int turned_units(int heads) { return heads * kTurnedStride / 8; }
  /// Size in units of 16 bytes.
  static __host__ __device__ constexpr int units(int heads, int dim) {
    constexpr int kStages = TileRing<Shape, kParts>::kBytes / 16;
    const int sums = kParts == 2 ? heads * (dim / 4 + 1) : 0;
    return (sums < kStages ? kStages : sums) + turned_units(heads);
  }
};

/// Folds a tile's block and shift into the query when they change.
template <class Shape>
struct PackedQuerySource {
  const StepParams& p;
  const StepRoom<Shape::kChunks>& room;
  int heads, lane;
  __half* turned;
  PackedQuery<Shape> query;
  const std::byte* block = nullptr;
  int shift = 0;

  __device__ BlockScales scales_of(const std::byte* of_block) const { return {of_block, p.heads.dim, p.layer.scales}; }
  /// Query of head lane / 4; zeros if there is no such head.
  __device__ const __half* of_shift(int wanted) {
    constexpr int kStride = PackedWarpRoom<Shape, 2>::kTurnedStride;
    if (wanted != shift) turn_queries(p, room, heads, wanted, turned);
    shift = wanted;
    const int row = lane / 4;
    return shift == 0 || row >= heads ? room.queries[row] : turned + row * kStride;
  }
  __device__ void follow(const StepTile& tile) {
    if (tile.block == block && tile.shift == shift) return;
    query.fold(of_shift(tile.shift), scales_of(tile.block), lane % 4);
    block = tile.block;
  }
};

/// Sets slots row (first two) and row + 8 of every step from `live` on to `value`.
template <int kSteps>
__device__ inline void replace_from(float (&products)[kSteps][4], int live, int row, float value) {
#pragma unroll
  for (int i = 0; i < kSteps; ++i)
    for (int k = 0; k < 4; ++k)
      if (16 * i + row + k / 2 * 8 >= live) products[i][k] = value;
}

template <class Shape>
__device__ void attend_packed_tiles(const StepParams& p, const StepPiece& piece, const StepTile* list, int count,
                                    TileRing<Shape, 2>& ring, PackedQuerySource<Shape>& source, int lane,
                                    PackedAttended<Shape>& attended) {
  const int row = lane / 4;
  StepCalibration calibration;
  const bool calibrated = count > 0 && read_calibration(p, piece, lane % 4, calibration);
  for (int i = 0; i < count; ++i) {
    const StepTile tile = list[i];
    const std::byte* before = source.block;
    source.follow(tile);
    if (tile.block != before && before != nullptr) {
      attended.settle(source.scales_of(before), row);
      attended.take_up(source.scales_of(tile.block), row);
    }
    for (int first = 0; first < tile.count; first += Shape::kSlots) {
      const std::byte* stage = ring.next();
      float products[Shape::kSteps][4];
      multiply_keys<Shape>(stage, source.query, lane, products);
      if (tile.count - first < Shape::kSlots) replace_from(products, tile.count - first, row, -INFINITY);
      uint32_t weights[Shape::kSteps][2];
      if (calibrated)
        attended.weigh(products, CalibratedScores<Shape>{source.query, calibration}, weights);
      else
        attended.weigh(products, PackedScores<Shape>{source.query}, weights);
      attended.mix(ring.values_of(stage), weights, lane);
    }
  }
  if (source.block != nullptr) attended.settle(source.scales_of(source.block), row);
}

template <class Shape>
__device__ void attend_plain_tiles(const StepParams& p, const StepPiece& piece, const StepTile* list,
                                   const TileCounts& tiles, PackedQuerySource<Shape>& source, int lane,
                                   PackedAttended<Shape>& attended) {
  if (tiles.packed == tiles.all) return;
  const int row = lane / 4, column = lane % 4;
  for (int i = tiles.packed; i < tiles.all; ++i) {
    // Hides its value from the compiler: constants derived from it before the loop would fill the registers.
    int dim = p.heads.dim;
    asm volatile("" : "+r"(dim));
    const StepTile tile = list[i];
    const bool has_new = tiles.has_new && i == tiles.all - 1;
    Tile<Shape::kChunks> keys;  // its values are unused
    keys.load_keys({tile.keys, tile.value_offset, tile.count, tile.shift}, dim, row, column);
    if (lane == 0 && i + kPlainAhead < tiles.all) fetch_tile(list[i + kPlainAhead], dim);
    if (has_new) keys.fill_in(source.room.key, source.room.value, piece.new_slot, row, column);
    uint4 queries[2 * Shape::kChunks];
    read_queries<Shape::kChunks>(source.of_shift(tile.shift), column, queries);
    float scores[1][4];
    score<Shape::kChunks>(keys.keys, queries, tile.count + has_new, row, scores[0]);
    // Not earlier: there are no registers for both keys and values.
    PlainValues<Shape> values;
    values.load(tile.keys + tile.value_offset, tile.count, dim, row, column);
    if (has_new) values.fill_in(source.room.value, piece.new_slot, row, column);
    uint32_t weights[1][2];
    attended.weigh(scores, PlainScores{}, weights);
    values.mix(attended, weights[0]);
  }
}

/// Puts a warp's sums, relative to its own maximum, into its part of shared memory: [heads, E / 4 + 1].
template <class Shape>
__device__ void gather_sums(const PackedAttended<Shape>& attended, const StepPiece& piece, int dim, int warp, int lane,
                            StepRoom<Shape::kChunks>& room, std::byte* shared) {
  constexpr int kPerHalf = Shape::kPerHalf;
  const int row = lane / 4;
  __syncwarp();
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int head = 2 * (lane % 4) + h;
    if (row == 0) {
      room.maxima[warp][head] = attended.maximum[h];
      room.sums[warp][head] = attended.earlier[h] + attended.sum[h];
    }
    if (head >= piece.heads) continue;
    float* to = reinterpret_cast<float*>(shared) + head * (dim + 4);
#pragma unroll
    for (int unit = 0; unit < Shape::kUnits; ++unit) {
      const int channel = Shape::first_channel(unit, row);
      if (channel >= dim) continue;
      float channels[kPerHalf];
#pragma unroll
      for (int i = 0; i < kPerHalf; ++i)
        channels[Shape::Codes::channel(i)] = attended.mixed[unit][i / 2][i % 2 * 2 + h];
#pragma unroll
      for (int i = 0; i < kPerHalf; i += 2)
        *reinterpret_cast<float2*>(to + channel + i) = make_float2(channels[i], channels[i + 1]);
    }
  }
}

}  // namespace ocellus::cuda

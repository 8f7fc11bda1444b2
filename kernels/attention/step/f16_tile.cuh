// One warp's part of decode attention: tiles of up to 16 slots, up to 8 query heads.
//
// Keys and values are loaded from memory directly into the fragments of matrix products [slots, channels] x [channels,
// heads] and [channels, slots] x [slots, heads]: a lane loads 16 bytes, 8 channels of one slot, and the products take a
// tile's channels in the resulting order. `row` and `column` are the lane's l / 4 and l % 4 (attend_tile.cuh).
#pragma once

#include <cmath>

#include "kernels/attention/attend_tile.cuh"
#include "kernels/attention/step/memory_reads.cuh"
#include "kernels/base/device_math.cuh"

namespace ocellus::cuda {

/// Channels covered by a warp's 16-byte loads: of 4 slots of values at once, of 8 slots of keys in two.
inline constexpr int kChunk = 64;
/// Below every score, and finite, so that differences are numbers.
inline constexpr float kNoScore = -1e30f;
/// Exponent of the largest weight: weights far below it are still distinguished in f16.
inline constexpr float kLargestWeight = 10.0f;

/// Place of a tile's slots, and the number of them in the cache, without the new one.
struct TileSlots {
  const std::byte* keys;
  int64_t value_offset;
  int count;
  int shift;  // position_shift
};

/// A warp's tile in its lanes' registers. Keys: slots row and row + 8, channels 32 i + 8 column .. + 7. Values: slots 2
/// column, 2 column + 1, and 8 after them, channels 64 i + 8 row .. + 7.
template <int kChunks>
struct Tile {
  uint4 keys[2 * kChunks][2];
  uint4 values[kChunks][4];

  __device__ void load_keys(const TileSlots& slots, int dim, int row, int column) {
    const std::byte* from = slots.keys + 2 * (row * dim + 8 * column);
#pragma unroll
    for (int i = 0; i < 2 * kChunks; ++i) {
      const bool inside = 32 * i + 8 * column < dim;
      keys[i][0] = load_16_if(inside && row < slots.count, from + 64 * i);
      keys[i][1] = load_16_if(inside && row + 8 < slots.count, from + 64 * i + 16 * dim);
    }
  }
  __device__ void load_values(const TileSlots& slots, int dim, int row, int column) {
    const std::byte* from = slots.keys + slots.value_offset + 2 * (2 * column * dim + 8 * row);
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      const bool inside = kChunk * i + 8 * row < dim;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int skipped = j % 2 + j / 2 * 8;
        values[i][j] =
            load_16_if(inside && 2 * column + skipped < slots.count, from + 2 * kChunk * i + 2 * skipped * dim);
      }
    }
  }
  /// The new slot, which is not in the cache yet.
  __device__ void fill_in(const __half* key, const __half* value, int slot, int row, int column) {
#pragma unroll
    for (int i = 0; i < 2 * kChunks; ++i) {
      const uint4 channels = *reinterpret_cast<const uint4*>(key + 32 * i + 8 * column);
      if (row == slot) keys[i][0] = channels;
      if (row + 8 == slot) keys[i][1] = channels;
    }
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      const uint4 channels = *reinterpret_cast<const uint4*>(value + kChunk * i + 8 * row);
#pragma unroll
      for (int j = 0; j < 4; ++j)
        if (2 * column + j % 2 + j / 2 * 8 == slot) values[i][j] = channels;
    }
  }
};

__device__ inline float largest_of_rows(float x) {
  for (int offset = 4; offset < kWarp; offset *= 2) x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFFu, x, offset));
  return x;
}
__device__ inline float sum_of_rows(float x) {
  for (int offset = 4; offset < kWarp; offset *= 2) x += __shfl_xor_sync(0xFFFFFFFFu, x, offset);
  return x;
}
__device__ inline uint32_t transposed(uint32_t matrix) {
  uint32_t to;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;\n" : "=r"(to) : "r"(matrix));
  return to;
}

/// Attention of one warp's tiles so far, for heads 2 column and 2 column + 1.
template <int kChunks>
struct Attended {
  float mixed[kChunks][4][4];  // [i][j]: channels 64 i + 8 row + 2 j (first two) and the one after it, by head
  float maximum[2];
  float sum[2];  // over this row's slots

  __device__ Attended() {
#pragma unroll
    for (int i = 0; i < kChunks; ++i)
      for (int j = 0; j < 4; ++j)
        for (float& x : mixed[i][j]) x = 0.0f;
    for (int h = 0; h < 2; ++h) {
      maximum[h] = kNoScore;
      sum[h] = 0.0f;
    }
  }
  /// scores: slots row (first two) and row + 8, by head. Returns the weights, transposed from slots by heads to heads
  /// by slots.
  __device__ void weigh(const float (&scores)[4], uint32_t (&weights)[2]) {
    float factor[2], base[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float larger = fmaxf(maximum[h], largest_of_rows(fmaxf(scores[h], scores[2 + h])));
      factor[h] = exp2_of(maximum[h] - larger);
      maximum[h] = larger;
      base[h] = larger - kLargestWeight;
    }
    float weight[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) weight[i] = exp2_of(scores[i] - base[i % 2]);
#pragma unroll
    for (int h = 0; h < 2; ++h) sum[h] = sum[h] * factor[h] + (weight[h] + weight[2 + h]);
    weights[0] = transposed(pack_halves(weight[0], weight[1]));
    weights[1] = transposed(pack_halves(weight[2], weight[3]));
#pragma unroll
    for (int i = 0; i < kChunks; ++i)
      for (int j = 0; j < 4; ++j)
        for (int k = 0; k < 4; ++k) mixed[i][j][k] *= factor[k % 2];
  }
  __device__ void mix(const uint4 (&values)[kChunks][4], const uint32_t (&weights)[2]) {
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      mix_pair(mixed[i][0], values[i][0].x, values[i][1].x, values[i][2].x, values[i][3].x, weights);
      mix_pair(mixed[i][1], values[i][0].y, values[i][1].y, values[i][2].y, values[i][3].y, weights);
      mix_pair(mixed[i][2], values[i][0].z, values[i][1].z, values[i][2].z, values[i][3].z, weights);
      mix_pair(mixed[i][3], values[i][0].w, values[i][1].w, values[i][2].w, values[i][3].w, weights);
    }
  }

 private:
  /// Two channels of four slots: rows `row` and `row + 8` of the product are the first and the second channel.
  static __device__ void mix_pair(float (&sums)[4], uint32_t slot_0, uint32_t slot_1, uint32_t slot_8, uint32_t slot_9,
                                  const uint32_t (&weights)[2]) {
    const uint32_t a[4] = {__byte_perm(slot_0, slot_1, 0x5410), __byte_perm(slot_0, slot_1, 0x7632),
                           __byte_perm(slot_8, slot_9, 0x5410), __byte_perm(slot_8, slot_9, 0x7632)};
    multiply_add(sums, a, weights[0], weights[1]);
  }
};

/// Scores of slots row (first two) and row + 8 for heads 2 column and 2 column + 1; minus infinity from slot `live` on.
template <int kChunks>
__device__ inline void score(const uint4 (&keys)[2 * kChunks][2], const uint4 (&queries)[2 * kChunks], int live,
                             int row, float (&scores)[4]) {
  float odd[4] = {};
  for (float& x : scores) x = 0.0f;
#pragma unroll
  for (int i = 0; i < 2 * kChunks; ++i) {
    const uint32_t low[4] = {keys[i][0].x, keys[i][1].x, keys[i][0].y, keys[i][1].y};
    const uint32_t high[4] = {keys[i][0].z, keys[i][1].z, keys[i][0].w, keys[i][1].w};
    multiply_add(scores, low, queries[i].x, queries[i].y);
    multiply_add(odd, high, queries[i].z, queries[i].w);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) scores[i] = row + i / 2 * 8 < live ? scores[i] + odd[i] : -INFINITY;
}

}  // namespace ocellus::cuda

// Tiles of packed slots whose values have scales by token (KIVI): expanded to f16 while loading, into the same
// fragments as f16 tiles. Scales that differ by slot cannot be folded into queries and sums, as those by channel can.
#pragma once

#include "kernels/attention/step/f16_tile.cuh"
#include "kernels/base/code_units.cuh"
#include "quant/kv_format.h"

namespace ocellus::cuda {

/// Slots of a tile that may be packed. `keys` are then codes, and value_offset leads to those of values.
struct TokenTileSlots : TileSlots {
  const std::byte* key_scales;    // offsets [E], steps [E]; null: an f16 tile
  const std::byte* value_scales;  // scales of the first slot
};

/// offset + step * code of eight channels as f16, rounded once.
__device__ inline uint4 expand_unit(const std::byte* codes, int bits, const uint4& offsets, const uint4& steps) {
  const uint64_t unit = load_code_unit(reinterpret_cast<const uint8_t*>(codes), bits);
  const uint32_t from[4] = {offsets.x, offsets.y, offsets.z, offsets.w}, by[4] = {steps.x, steps.y, steps.z, steps.w};
  uint32_t to[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const __half2 code = __floats2half2_rn(static_cast<float>(code_in_unit(unit, bits, 2 * i)),
                                           static_cast<float>(code_in_unit(unit, bits, 2 * i + 1)));
    const __half2 value =
        __hfma2(reinterpret_cast<const __half2&>(by[i]), code, reinterpret_cast<const __half2&>(from[i]));
    to[i] = reinterpret_cast<const uint32_t&>(value);
  }
  return {to[0], to[1], to[2], to[3]};
}

/// Implements Tile::load_keys.
template <int kChunks>
__device__ void load_token_keys(const TokenTileSlots& slots, int bits, int dim, int row, int column,
                                Tile<kChunks>& tile) {
  if (slots.key_scales == nullptr) return tile.load_keys(slots, dim, row, column);
#pragma unroll
  for (int i = 0; i < 2 * kChunks; ++i) {
    const int channel = 32 * i + 8 * column;
    const bool inside = channel < dim;
    const uint4 offsets = load_16_if(inside, slots.key_scales + 2 * channel);
    const uint4 steps = load_16_if(inside, slots.key_scales + 2 * (dim + channel));
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int slot = row + 8 * j;
      tile.keys[i][j] = inside && slot < slots.count
                            ? expand_unit(slots.keys + (slot * dim + channel) / kCodeUnit * bits, bits, offsets, steps)
                            : uint4{};
    }
  }
}

/// Implements Tile::load_values.
template <int kChunks>
__device__ void load_token_values(const TokenTileSlots& slots, int bits, int dim, int row, int column,
                                  Tile<kChunks>& tile) {
  if (slots.key_scales == nullptr) return tile.load_values(slots, dim, row, column);
#pragma unroll
  for (int i = 0; i < kChunks; ++i) {
    const int channel = kChunk * i + 8 * row;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int slot = 2 * column + j % 2 + j / 2 * 8, at = slot * dim + channel;
      tile.values[i][j] = uint4{};
      if (channel >= dim || slot >= slots.count) continue;
      const __half2 scale = __ldcg(reinterpret_cast<const __half2*>(slots.value_scales) + at / kValueGroup);
      const __half2 offset = __low2half2(scale), step = __high2half2(scale);
      const auto offsets = reinterpret_cast<const uint32_t&>(offset), steps = reinterpret_cast<const uint32_t&>(step);
      tile.values[i][j] = expand_unit(slots.keys + slots.value_offset + at / kCodeUnit * bits, bits,
                                      {offsets, offsets, offsets, offsets}, {steps, steps, steps, steps});
    }
  }
}

}  // namespace ocellus::cuda

// Products with many input rows by instructions that multiply pairs of bf16: of half-precision weights where that is
// wanted, and by the tiles of AMX, which are faster than products of codes, of block formats. Half-precision weights
// have tiles of their own (matmul_parts-inl.h).
//
//   y[t, n] = sum over pairs of  w[n, 2 i] * x[t, 2 i] + w[n, 2 i + 1] * x[t, 2 i + 1]
//
// Weights and inputs are rounded to bf16, products exact, sums in f32.
#pragma once

#include <cstdint>

#include "kernels/base/pairs.h"
#include "kernels/linear/matmul_codes.h"
#include "kernels/linear/matmul_tiles.h"
#include "platform/device.h"
#include "quant/block_codes.h"
#include "quant/weight_format.h"

namespace ocellus {

inline bool is_half_format(WeightFormat format) {
  return format == WeightFormat::kF16 || format == WeightFormat::kBF16;
}
/// True if weights of the format are multiplied so, where there are vectors for VNNI. The functions below are only for
/// such CPUs.
inline bool multiplies_pairs(WeightFormat format, CpuMath math) {
  if (has_tile_products()) return is_block_format(format);
  return math == CpuMath::kBf16 && has_pair_products() && is_half_format(format);
}
/// True if half-precision weights are multiplied by tiles of their parts there.
inline bool multiplies_parts(WeightFormat format) { return has_tile_products() && is_half_format(format); }

/// Pairs of a row with the zeros at its end, and the bytes of an input row.
constexpr int64_t padded_pairs(int64_t cols) { return round_up(divide_up(cols, 2), 32); }
constexpr int64_t pair_row_bytes(int64_t cols) { return 4 * padded_pairs(cols); }

/// Input rows that are rounded together.
inline constexpr int64_t kRoundedTogether = 16;
/// Input rows that are multiplied together.
inline int64_t pair_rows_together() { return has_tile_products() ? kMostTileInputs : 8; }

/// Rounds `count` input rows of `cols` floats, at most kRoundedTogether, to `out`: as multiply_tiles wants them,
/// otherwise [pairs][8] and once more. What there is no row for is zero. All operands but rows are aligned to 64.
void round_pairs(const float* x, int64_t stride, int64_t count, int64_t cols, uint32_t* out);
/// Interleaves sixteen weight rows, F16 or BF16, into a panel [pairs][kPanelRows].
void fill_pair_panel(WeightFormat format, const uint8_t* const* rows, int64_t cols, uint32_t* panel);
/// Makes such a panel of one of codes without bias.
void widen_panel(const WeightPanel& codes, int64_t cols, uint32_t* panel);
/// Multiplies a panel by `count` rounded rows, at most pair_rows_together(); sums [pair_rows_together()][kPanelRows].
void multiply_pairs(const uint32_t* panel, const uint32_t* rows, int64_t count, int64_t pairs, float* sums);

}  // namespace ocellus

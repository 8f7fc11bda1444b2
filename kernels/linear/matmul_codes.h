// Integer operands of the matrix product on the CPU, shared by its portable and its native kernels.
//
//   y[t, n] = sum over groups g of  w_scale[n, g] * x_scale[t, g] * (sum over i in g of w_code[n, i] * x_code[t, i])
//                                 - w_minimum[n, g] * x_sum[t, g]
//
// The inner sum is exact in int32: at most 32 products of magnitude 128 * 127.
#pragma once

#include <cstddef>
#include <cstdint>

#include "platform/round_up.h"

namespace ocellus {

inline constexpr int kInputGroup = 32;  // inputs that share a scale
inline constexpr int kPanelRows = 16;   // weight rows of a panel

/// Groups of inputs below this count as zero: the reciprocal of their scale would overflow.
inline constexpr float kSmallestInput = 1e-30f;

/// Distance of weights that are fetched while a row is multiplied: the CPU's prefetchers do not follow short rows far
/// enough.
inline constexpr int64_t kWeightsAhead = 16384;

/// Fetches weights into the level-2 cache, which has more requests under way than the first. They need not exist.
/// Always inline: GCC takes a function of prefetches alone for one without effect, and leaves out its calls.
[[gnu::always_inline]] inline void fetch_weights(const uint8_t* from, int64_t bytes) {
  constexpr int kToLevel2 = 2;
#pragma GCC unroll 8
  for (int64_t line = 0; line < bytes; line += 64) __builtin_prefetch(from + line, 0, kToLevel2);
}

/// InputCodes::half_offsets times the scale and this constant: scale times the sum of the codes.
inline constexpr float kSumOfOffset = -1.0f / 128;

/// Input rows rounded to int8, x = scale * code. One record per row; the part after the last group is zero, so kernels
/// may read whole vectors. Rows that are multiplied together by panels may share their records: see InputTile.
class InputCodes {
 public:
  /// `data` is aligned to 64 and has room for one record per row.
  InputCodes(std::byte* data, int64_t inner)
      : cols(inner), padded_cols(round_up(inner, 64)), padded_groups(round_up(inner / kInputGroup, 16)), data_(data) {}

  int64_t record_bytes() const { return padded_cols + 5 * 4 * padded_groups; }

  int8_t* codes(int64_t t) const { return reinterpret_cast<int8_t*>(data_ + t * record_bytes()); }
  float* scales(int64_t t) const { return reinterpret_cast<float*>(codes(t) + padded_cols); }
  /// Scale times the sum of the group's codes.
  float* sums(int64_t t) const { return scales(t) + padded_groups; }
  /// -128 times the sum of the codes of 32 and of 16 inputs: the correction of a product with (w + 128).
  int32_t* offsets(int64_t t) const { return reinterpret_cast<int32_t*>(sums(t) + padded_groups); }
  int32_t* half_offsets(int64_t t) const { return offsets(t) + padded_groups; }

  const int64_t cols, padded_cols, padded_groups;

 private:
  std::byte* data_;
};

/// Input rows that a panel is multiplied by together.
inline constexpr int64_t kTileInputs = 8;

/// These rows interleaved in the room of their records: every operand is then at a constant distance from one address,
/// where one address a row would not fit into the registers.
struct InputTile {
  InputTile(const InputCodes& input, int64_t first)
      : codes(input.codes(first)),
        scales(reinterpret_cast<float*>(codes + kTileInputs * input.padded_cols)),
        sums(scales + kTileInputs * input.padded_groups),
        offsets(reinterpret_cast<int32_t*>(sums + kTileInputs * input.padded_groups)),
        half_offsets(offsets + kTileInputs * input.padded_groups) {}

  int8_t* const codes;          // [K / 4][kTileInputs][4]
  float* const scales;          // [K / 32][kTileInputs]
  float* const sums;            // [K / 32][kTileInputs]
  int32_t* const offsets;       // [K / 32][kTileInputs]
  int32_t* const half_offsets;  // [K / 16][kTileInputs]
};

#if defined(__x86_64__)
inline constexpr uint8_t kPanelBias = 128;  // VNNI wants weights unsigned
#else
inline constexpr uint8_t kPanelBias = 0;
#endif

/// Sixteen weight rows interleaved.
struct WeightPanel {
  int group = 32;                   // G
  const uint8_t* codes = nullptr;   // [K / 4][16 rows][4], as code plus kPanelBias
  const float* scales = nullptr;    // [K / G][16]
  const float* minimums = nullptr;  // [K / G][16] or null
};

// Kernels for instructions that the portable ones cannot use: AVX-512 VNNI on x86, the int8 dot product on Arm. Only
// Highway targets for which this holds may call them, and only if has_native_products().
#define OCELLUS_VNNI (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3_DL)
#define OCELLUS_NATIVE_TARGET (OCELLUS_VNNI || (HWY_TARGET == HWY_NEON && HWY_ARCH_ARM_A64))

#if defined(__aarch64__)
/// True if this CPU has the int8 dot product: all since Armv8.4 (FEAT_DotProd), and many before.
bool has_native_products();
#else
/// On x86 the Highway target implies it.
constexpr bool has_native_products() { return true; }
#endif
#if defined(__x86_64__)
/// Rounds rows of inner dimension out.cols, `stride` floats apart, into the tile of row `first` and its successors. If
/// there are less than kTileInputs, the others of the tile are zero.
void round_tile_native(const float* x, int64_t stride, int64_t count, const InputCodes& out, int64_t first);
#endif
/// Multiplies a panel by input rows first..first + count - 1, at most kTileInputs; sums [kTileInputs][16]. On x86 they
/// are a tile.
void multiply_panel_native(const WeightPanel& panel, const InputCodes& input, int64_t first, int count, float* sums);

}  // namespace ocellus

// Integer operands of the matrix product on the CPU, shared by its portable and its native kernels.
//
//   y[t, n] = sum over groups g of  w_scale[n, g] * x_scale[t, g] * (sum over i in g of w_code[n, i] * x_code[t, i])
//                                 - w_minimum[n, g] * x_sum[t, g]
//
// The inner sum is exact in int32: at most 32 products of magnitude 128 * 127.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ocellus {

inline constexpr int kInputGroup = 32;  // inputs that share a scale
inline constexpr int kPanelRows = 16;   // weight rows of a panel

constexpr int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

/// Input rows rounded to int8, x = scale * code. One record per row; what lies behind the last group is zero, so
/// kernels may read whole vectors.
struct InputCodes {
  std::byte* data = nullptr;  // aligned to 64
  int64_t cols = 0;

  static int64_t padded_cols(int64_t cols) { return round_up(cols, 64); }
  static int64_t padded_groups(int64_t cols) { return round_up(cols / kInputGroup, 16); }
  static int64_t record_bytes(int64_t cols) { return padded_cols(cols) + 5 * 4 * padded_groups(cols); }

  int8_t* codes(int64_t t) const { return reinterpret_cast<int8_t*>(record(t)); }
  float* scales(int64_t t) const { return reinterpret_cast<float*>(record(t) + padded_cols(cols)); }
  /// Scale times the sum of the group's codes.
  float* sums(int64_t t) const { return scales(t) + padded_groups(cols); }
  /// -128 times the sum of the codes of 32 and of 16 inputs: what a product with (w + 128) must be corrected by.
  int32_t* offsets(int64_t t) const { return reinterpret_cast<int32_t*>(sums(t) + padded_groups(cols)); }
  int32_t* half_offsets(int64_t t) const { return offsets(t) + padded_groups(cols); }

 private:
  std::byte* record(int64_t t) const { return data + t * record_bytes(cols); }
};

/// One weight row as codes. Groups lie `stride_bytes` apart, so that codes can be read where the file has them.
struct WeightCodes {
  const int8_t* codes = nullptr;
  int64_t stride_bytes = 0;
  const float* scales = nullptr;    // [K / G], zero up to a multiple of 16
  const float* minimums = nullptr;  // [K / 32], zero up to a multiple of 16; null if the format has none
};

/// Sixteen weight rows interleaved, codes plus 128.
struct WeightPanel {
  const uint8_t* codes = nullptr;   // [K / 4][16 rows][4]
  const float* scales = nullptr;    // [K / G][16]
  const float* minimums = nullptr;  // [K / 32][16] or null
};

#if defined(__x86_64__)
// Kernels for x86 CPUs with AVX-512 VNNI. `group` is 32 or 16, the weights that share a scale.
/// Four weight rows against one input row; sums [4].
void multiply_rows_vnni(const WeightCodes* rows, int group, const InputCodes& input, int64_t t, float* sums);
/// A panel against input rows first..first + count - 1 (at most 8); sums [count][16].
void multiply_panel_vnni(const WeightPanel& panel, int group, const InputCodes& input, int64_t first, int count,
                         float* sums);
#endif

}  // namespace ocellus

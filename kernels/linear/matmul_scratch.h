// Division of the operands of the CUDA matrix product of many rows, and its scratch. Plain arithmetic, so that plans
// can be made in builds without CUDA.
//
// The scratch holds, in this order: the workspace of cuBLASLt, the biases, input rows rounded to f16, decoded weight
// rows.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "kernels/linear/few_rows/plan.h"
#include "platform/round_up.h"

namespace ocellus::cuda {

inline constexpr int64_t kScratchUnit = 256;  // alignment of every part; required by cuBLASLt
inline constexpr int64_t kMaxMatrices = 3;
inline constexpr int64_t kLibraryAlignment = 16;  // alignment of operands and their rows, in bytes
/// Few rows use this path only if their weights are not aligned. They then favour little memory over speed, as no other
/// few rows need any. Lean devices do so for any number of rows.
inline constexpr int64_t kOddRows = 32;

constexpr int64_t scratch_units(int64_t bytes) { return round_up(bytes, kScratchUnit); }

/// Inner dimensions are multiples of 8 f16; other rows are padded with zeros in scratch.
constexpr int64_t padded_cols(int64_t cols) { return round_up(cols, 8); }
/// True if contiguous f16 rows of `cols` values can be multiplied in place.
inline bool has_usable_rows(const void* data, int64_t cols) {
  return padded_cols(cols) == cols && reinterpret_cast<uintptr_t>(data) % kLibraryAlignment == 0;
}

/// The rows rounded up to a power of two: all row counts of one bucket share a plan.
constexpr int64_t row_bucket(int64_t rows) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(rows))); }

/// Workspace for cuBLASLt to sum parts of a product in parallel: two f32 copies of the outputs. Lean: only the counters
/// of its kernels.
constexpr int64_t library_workspace_bytes(int64_t rows, int64_t outputs, bool lean) {
  if (lean) return 64 << 10;
  if (rows <= kOddRows) return 1 << 20;
  return scratch_units(std::clamp<int64_t>(8 * row_bucket(rows) * outputs, 1 << 20, 8 << 20));
}

/// Maximum bytes of inputs that are rounded into scratch at a time, if they are not aligned f16.
constexpr int64_t rounded_input_bytes(bool lean) { return lean ? 48 << 10 : 8 << 20; }
/// Maximum bytes of weights that are decoded into scratch at a time, if they are not aligned f16. Decoded weights stay
/// in the L2 cache of large GPUs until they are multiplied.
constexpr int64_t decoded_weight_bytes(int64_t rows, bool lean) {
  if (lean) return 64 << 10;
  return rows <= kOddRows ? 1 << 20 : 32 << 20;
}
/// Parts have a multiple of kSmallestPart rows, preferably of kFullPart, the size of tensor cores' tiles.
inline constexpr int64_t kSmallestPart = 16, kFullPart = 64;

constexpr int64_t part_unit(int64_t most) { return most >= kFullPart ? kFullPart : kSmallestPart; }
constexpr int64_t most_rows(int64_t bytes, int64_t cols) {
  const int64_t most = std::max(kSmallestPart, bytes / (2 * cols));
  return most / part_unit(most) * part_unit(most);
}
/// Rows of a part if `rows` rows are divided into as few parts as `bytes` allow, all of about the same size.
constexpr int64_t part_rows(int64_t rows, int64_t bytes, int64_t cols) {
  const int64_t most = most_rows(bytes, cols);
  if (rows <= most) return rows;
  return round_up(divide_up(rows, divide_up(rows, most)), part_unit(most));
}
/// Upper bound of the bytes of any part_rows(), for up to `rows` and `cols`.
constexpr int64_t part_bytes(int64_t rows, int64_t bytes, int64_t cols) {
  return scratch_units(std::min(2 * rows * cols, std::max(bytes, 2 * kSmallestPart * cols)));
}

constexpr int64_t bias_bytes(int64_t outputs) { return scratch_units(4 * outputs); }

/// Matrices whose outputs are adjacent are multiplied as one, so there is room for all.
constexpr int64_t many_rows_scratch_bytes(int64_t rows, int64_t cols, int64_t outputs, bool lean) {
  const int64_t padded = padded_cols(cols), joined = kMaxMatrices * outputs;
  return kScratchUnit + library_workspace_bytes(rows, joined, lean) + kMaxMatrices * bias_bytes(outputs) +
         part_bytes(rows, rounded_input_bytes(lean), padded) +
         part_bytes(joined, decoded_weight_bytes(rows, lean), padded);
}

/// Implements matmul_scratch_bytes on CUDA.
constexpr int64_t matmul_scratch_bytes(int64_t rows, int64_t cols, int64_t outputs, bool lean) {
  return std::max(few_rows_scratch_bytes(rows, cols), many_rows_scratch_bytes(rows, cols, outputs, lean));
}

}  // namespace ocellus::cuda

// How the CUDA matrix product of many rows cuts its operands, and the scratch it needs for them. Plain arithmetic, so
// that plans can be made in builds without CUDA.
//
// In scratch lie, in this order: the workspace of cuBLASLt, the biases, input rows rounded to f16, decoded weight rows.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "kernels/linear/matmul_few_rows_plan.h"
#include "platform/round_up.h"

namespace ocellus::cuda {

inline constexpr int64_t kScratchUnit = 256;  // alignment of every part; cuBLASLt asks for it
inline constexpr int64_t kMostMatrices = 3;
inline constexpr int64_t kLibraryAlignment = 16;  // of operands and their rows, in bytes
/// Few rows come this way only if their weights lie or end at odd places. They then take little memory rather than
/// little time, as no other few rows need any. Lean devices do so for any number of rows.
inline constexpr int64_t kOddRows = 32;

constexpr int64_t scratch_units(int64_t bytes) { return round_up(bytes, kScratchUnit); }

/// Inner dimensions are multiples of 8 f16; rows that are none get zeros behind their last value, in scratch.
constexpr int64_t padded_cols(int64_t cols) { return round_up(cols, 8); }
/// Whether f16 rows of `cols` values, one behind the other, can be multiplied where they are.
inline bool has_usable_rows(const void* data, int64_t cols) {
  return padded_cols(cols) == cols && reinterpret_cast<uintptr_t>(data) % kLibraryAlignment == 0;
}

/// The rows rounded up to a power of two: numbers of rows of one bucket share a plan.
constexpr int64_t row_bucket(int64_t rows) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(rows))); }

/// What cuBLASLt may use to sum parts of a product side by side: room for two f32 copies of the outputs. Lean: only
/// what its kernels count their progress in.
constexpr int64_t library_workspace_bytes(int64_t rows, int64_t outputs, bool lean) {
  if (lean) return 64 << 10;
  if (rows <= kOddRows) return 1 << 20;
  return scratch_units(std::clamp<int64_t>(8 * row_bucket(rows) * outputs, 1 << 20, 8 << 20));
}

/// Inputs that are no aligned f16 are rounded into scratch, at most this many bytes at a time.
constexpr int64_t rounded_input_bytes(bool lean) { return lean ? 48 << 10 : 8 << 20; }
/// Weights that are no aligned f16 are decoded into scratch, at most this many bytes at a time. What was decoded stays
/// in the level-2 cache of large GPUs until it is multiplied.
constexpr int64_t decoded_weight_bytes(int64_t rows, bool lean) {
  if (lean) return 64 << 10;
  return rows <= kOddRows ? 1 << 20 : 32 << 20;
}
/// Parts have a multiple of so many rows, better of kFullPart, which is what tensor cores like.
inline constexpr int64_t kSmallestPart = 16, kFullPart = 64;

constexpr int64_t part_unit(int64_t most) { return most >= kFullPart ? kFullPart : kSmallestPart; }
constexpr int64_t most_rows(int64_t bytes, int64_t cols) {
  const int64_t most = std::max(kSmallestPart, bytes / (2 * cols));
  return most / part_unit(most) * part_unit(most);
}
/// Rows of a part if `rows` rows are cut into as few parts as `bytes` allow, all of about the same size.
constexpr int64_t part_rows(int64_t rows, int64_t bytes, int64_t cols) {
  const int64_t most = most_rows(bytes, cols);
  if (rows <= most) return rows;
  const int64_t parts = (rows + most - 1) / most;
  return ((rows + parts - 1) / parts + part_unit(most) - 1) / part_unit(most) * part_unit(most);
}
/// No less than any part_rows() takes, for up to `rows` and `cols`.
constexpr int64_t part_bytes(int64_t rows, int64_t bytes, int64_t cols) {
  return scratch_units(std::min(2 * rows * cols, std::max(bytes, 2 * kSmallestPart * cols)));
}

constexpr int64_t bias_bytes(int64_t outputs) { return scratch_units(4 * outputs); }

/// Matrices whose outputs lie side by side are multiplied as one, so that there is room for all.
constexpr int64_t many_rows_scratch_bytes(int64_t rows, int64_t cols, int64_t outputs, bool lean) {
  const int64_t padded = padded_cols(cols), joined = kMostMatrices * outputs;
  return kScratchUnit + library_workspace_bytes(rows, joined, lean) + kMostMatrices * bias_bytes(outputs) +
         part_bytes(rows, rounded_input_bytes(lean), padded) +
         part_bytes(joined, decoded_weight_bytes(rows, lean), padded);
}

/// What matmul_scratch_bytes says on CUDA.
constexpr int64_t matmul_scratch_bytes(int64_t rows, int64_t cols, int64_t outputs, bool lean) {
  return std::max(few_rows_scratch_bytes(rows, cols), many_rows_scratch_bytes(rows, cols, outputs, lean));
}

}  // namespace ocellus::cuda

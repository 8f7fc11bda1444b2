// Choice of the plan of a few-row product. Pure functions of shapes and device; the limits are measured.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/base/device_limits.cuh"
#include "platform/round_up.h"
#include "quant/weight_format.h"

namespace ocellus::cuda {

/// Maximum rows of a product.
inline constexpr int64_t kFewRows = 64;
/// Input rows beyond which tensor cores are faster than a row of weights per warp.
inline constexpr int kMaxPerWarpRows = 2;
inline constexpr int kMaxTileRows = 8;  // columns of a product of the tensor cores
/// Number of input values beyond which rounding them once is faster than rounding them in every block.
inline constexpr int64_t kMaxPerWarpValues = 65536;
/// Rows beyond which cuBLASLt multiplies plain weights faster.
inline constexpr int64_t kMaxPlainRows = 32;

/// Inputs rounded beforehand are copied into shared memory if a block needs at most this much of it then: two blocks of
/// a multiprocessor of 228 KB.
inline constexpr int kMaxStagedBytes = 112 * 1024;

/// Plans, by the number of input rows.
enum class FewRowsPlan : uint8_t {
  kPerWarp,  // one or two: a row of weights per warp, without tensor cores; the others use them
  kTiles,    // three to eight, as f16: weights decoded once, inputs in registers
  kTwo,      // rounded beforehand, to int8 for block formats: up to 16, 32, 64
  kFour,
  kEight,
};

constexpr int tiles_of(FewRowsPlan plan) {
  return plan == FewRowsPlan::kTwo ? 2 : plan == FewRowsPlan::kFour ? 4 : plan == FewRowsPlan::kEight ? 8 : 1;
}

/// Warps of a block of FewRowsPlan::kPerWarp that takes `block_rows` weight rows: the larger number if they fit, unless
/// it leaves more of them without a row in the last turn.
constexpr int choose_warps(int64_t block_rows, int fewer, int more, bool fit) {
  const auto busy = [&](int64_t warps) {
    return static_cast<double>(block_rows) / static_cast<double>(round_up(block_rows, warps));
  };
  constexpr double kWorthIt = 0.15;  // more warps hide more latency
  return fit && busy(more) + kWorthIt >= busy(fewer) ? more : fewer;
}

/// `per_warp_bytes`: shared memory that FewRowsPlan::kPerWarp needs.
constexpr FewRowsPlan choose_few_rows_plan(int64_t rows, int64_t cols, int64_t per_warp_bytes, int64_t most_shared) {
  const int64_t values = rows * ((cols + 31) / 32) * 32;
  if (rows <= kMaxPerWarpRows && values <= kMaxPerWarpValues && per_warp_bytes <= most_shared)
    return FewRowsPlan::kPerWarp;
  if (rows > kMaxPerWarpRows && rows <= kMaxTileRows) return FewRowsPlan::kTiles;
  return rows <= 16 ? FewRowsPlan::kTwo : rows <= 32 ? FewRowsPlan::kFour : FewRowsPlan::kEight;
}

constexpr const char* name_of(FewRowsPlan plan) {
  constexpr const char* kNames[] = {"per warp", "tiles", "two", "four", "eight"};
  return kNames[static_cast<int>(plan)];
}

/// Rows rounded beforehand are stored in 2, 4 or 8 tiles of eight.
constexpr int64_t rounded_columns(int64_t rows) { return rows <= 16 ? 16 : rows <= 32 ? 32 : 64; }

/// Scratch of multiply_few_rows for at most `rows` rows of at most `cols` values.
constexpr int64_t few_rows_scratch_bytes(int64_t rows, int64_t cols) {
  constexpr int64_t kLargestGroupBytes = 64;  // f16; codes and scales take 40
  return kLargestGroupBytes * ((cols + 31) / 32) * rounded_columns(std::min(rows, kFewRows));
}

}  // namespace ocellus::cuda

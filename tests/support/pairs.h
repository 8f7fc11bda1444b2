// What CPUs that multiply pairs of bf16 make of products of half-precision values.
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/base/highway_targets.h"
#include "kernels/linear/matmul_pairs.h"
#include "platform/queue.h"
#include "tests/support/test_queue.h"

namespace ocellus::test {

inline bool uses_best_target() { return (supported_targets() & HWY_AVX3_DL) != 0; }
/// True if the CPU target in use multiplies such pairs in attention.
inline bool attends_pairs() { return has_pair_products() && uses_best_target(); }
/// True if it does in products of `rows` rows with weights of the format.
inline bool takes_pairs(WeightFormat format, int64_t rows) {
  return rows >= 8 && uses_best_target() && multiplies_pairs(format);
}
inline bool has_pairs() { return takes_pairs(WeightFormat::kF16, 8); }

/// True if keys, values, half-precision weights and what they are multiplied by are rounded on the way, on CUDA to f16.
inline bool rounds_factors(const Queue& queue) { return queue.on_cuda() || has_pairs(); }

/// Rounds to nearest even.
inline float as_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return std::bit_cast<float>((bits + 0x7FFFu + (bits >> 16 & 1u)) & 0xFFFF0000u);
}

}  // namespace ocellus::test

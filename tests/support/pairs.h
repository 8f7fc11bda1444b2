// What CPUs that multiply pairs of bf16 make of products.
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
inline bool attends_pairs(const Queue& queue) {
  return !queue.on_cuda() && queue.traits().cpu_math == CpuMath::kBf16 && has_pair_products() && uses_best_target();
}
/// True if it does in products of `rows` rows with weights of the format.
inline bool takes_pairs(WeightFormat format, int64_t rows, CpuMath math = CpuMath::kF16) {
  if (rows < 8 || !uses_best_target()) return false;
  return multiplies_pairs(format, math) || (math == CpuMath::kBf16 && multiplies_parts(format));
}
/// True if products with AMX's tiles make two bf16 of each factor.
inline bool takes_parts(WeightFormat format, int64_t rows) {
  return rows >= 8 && uses_best_target() && multiplies_parts(format);
}
/// Error of a product of parts, and of its sum: a second part loses 2^-16 of an input at most.
inline constexpr double kPartsError = 2.5e-5;

/// Sets a queue's arithmetic for a while.
class WithCpuMath {
 public:
  WithCpuMath(Queue& queue, CpuMath math) : queue_(queue) { queue_.set_cpu_math(math); }
  ~WithCpuMath() { queue_.set_cpu_math(CpuMath::kF16); }
  WithCpuMath(const WithCpuMath&) = delete;
  WithCpuMath& operator=(const WithCpuMath&) = delete;

 private:
  Queue& queue_;
};

/// Rounds to nearest even.
inline float as_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return std::bit_cast<float>((bits + 0x7FFFu + (bits >> 16 & 1u)) & 0xFFFF0000u);
}

}  // namespace ocellus::test

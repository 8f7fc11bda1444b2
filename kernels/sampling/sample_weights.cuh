// The sampler's numbers on the device: logits and tokens as integers in the order of probability, and probabilities as
// integers, whose sums are exact in any order.
#pragma once

#include <cstdint>
#include <numbers>

#include "kernels/base/launch.cuh"

namespace ocellus::cuda {

/// Unsigned integers in the order of the logits; -0 is 0; NaN is 0, which no other logit has.
inline constexpr uint32_t kLowestKey = 0x007FFFFF;  // key of minus infinity
__device__ inline uint32_t key_of(float logit) {
  const uint32_t bits = __float_as_uint(logit);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return 0;
  if (logit == 0) return 0x80000000u;
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}
__device__ inline float logit_of(uint32_t key) {
  return __uint_as_float((key & 0x80000000u) != 0 ? key & 0x7FFFFFFFu : ~key);
}

/// Order words: the key above, and below it `token_bits` bits of the token, lower tokens being larger words. No two
/// candidates have the same word.
__device__ inline uint64_t order_of(uint32_t key, int token, int token_bits) {
  return (uint64_t{key} << token_bits) + ((uint64_t{1} << token_bits) - 1 - static_cast<uint64_t>(token));
}
__device__ inline int token_of(uint64_t order, int token_bits) {
  const uint64_t mask = (uint64_t{1} << token_bits) - 1;
  return static_cast<int>(mask - (order & mask));
}
__device__ inline uint32_t key_in(uint64_t order, int token_bits) { return static_cast<uint32_t>(order >> token_bits); }

/// 2^62 * 2^(-i / kPowers), i = 0 .. kPowers - 1.
inline constexpr int kPowers = 1024;
struct PowerTable {
  uint64_t values[kPowers];
};
constexpr PowerTable make_power_table() {
  PowerTable table{};
  for (int i = 0; i < kPowers; ++i) {
    const double x = -0.6931471805599453094 * i / kPowers;
    double sum = 1;
    for (int n = 24; n > 0; --n) sum = 1 + sum * x / n;
    table.values[i] = static_cast<uint64_t>(sum * static_cast<double>(uint64_t{1} << 62));
  }
  return table;
}

/// e^((logit - largest) / temperature) in units of 2^-unit_bits. Small devices have hardly any f64 units, so f32 and
/// integers are used, accurate to about 1e-10.
struct Weighing {
  float largest;
  float temperature;
  float scale_high, scale_low;  // log2(e) / temperature is their sum
  int unit_bits;                // 1 .. 48
  bool plain;                   // false: temperatures whose scale is not a normal float
};

__device__ inline Weighing make_weighing(float largest, float temperature, int unit_bits) {
  Weighing w{};
  w.largest = largest;
  w.temperature = temperature;
  w.unit_bits = unit_bits;
  w.plain = temperature > 0x1p-60f && temperature < 0x1p60f;
  if (!w.plain) return w;
  const double scale = std::numbers::log2e / static_cast<double>(temperature);
  w.scale_high = static_cast<float>(scale);
  w.scale_low = static_cast<float>(scale - static_cast<double>(w.scale_high));
  return w;
}

static __device__ __noinline__ uint64_t weight_at_odd_temperature(float logit, const Weighing& w) {
  const double difference = static_cast<double>(logit) - static_cast<double>(w.largest);
  return static_cast<uint64_t>(
      __double2ll_rn(exp(difference / static_cast<double>(w.temperature)) * static_cast<double>(1LL << w.unit_bits)));
}

/// `powers` is make_power_table()'s, in shared memory. Every product that may or may not fuse with a sum is explicit: a
/// logit must have the same weight wherever this is inlined.
__device__ inline uint64_t weight_of(float logit, const Weighing& w, const uint64_t* powers) {
  if (!w.plain) return weight_at_odd_temperature(logit, w);
  // The number of halvings y = (largest - logit) * scale as a float and its error.
  const float gap = __fsub_rn(w.largest, logit);
  const float halvings = __fmul_rn(gap, w.scale_high);
  if (!(halvings < 64.0f)) return 0;
  const float back = __fsub_rn(gap, w.largest);
  const float gap_error = __fsub_rn(__fsub_rn(w.largest, __fsub_rn(gap, back)), __fadd_rn(logit, back));
  const float error = fmaf(gap_error, w.scale_high, fmaf(gap, w.scale_low, fmaf(gap, w.scale_high, -halvings)));
  // 2^-y = 2^-whole * 2^(-index / kPowers) * (1 + bend), |bend| < 2^-10.
  const float whole = floorf(halvings);
  const float fraction = __fsub_rn(halvings, whole);
  const int index = static_cast<int>(__fmul_rn(fraction, kPowers));
  const float rest = __fadd_rn(fmaf(static_cast<float>(index), -1.0f / kPowers, fraction), error);
  const float bend = __fmul_rn(rest, fmaf(rest, fmaf(rest, -0.0555041087f, 0.240226507f), -0.693147181f));
  const int64_t power = static_cast<int64_t>(powers[index]);
  const int64_t bent =
      power + ((static_cast<int64_t>(static_cast<int>(power >> 32)) * __float2int_rn(bend * 0x1p40f)) >> 8);
  const int shift = 62 - w.unit_bits + static_cast<int>(whole);
  return shift > 62 ? 0 : static_cast<uint64_t>(((bent >> (shift - 1)) + 1) >> 1);
}

}  // namespace ocellus::cuda

// Integer products with the int8 dot product of Arm: sdot adds four s8 x s8 products to each of four int32 sums.
//
// The portable kernel widens to int16 first and so needs several instructions instead of one.
#include "kernels/linear/matmul_codes.h"

#if defined(__aarch64__)

#include <arm_neon.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>

// Only the code below is compiled for the dot product: inline functions of the headers above may be shared with other
// files, and the CPU may lack it.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("dotprod"))), apply_to = function)
#elif !defined(__ARM_FEATURE_DOTPROD)
#pragma GCC push_options
#pragma GCC target("arch=armv8.2-a+dotprod")
#endif

namespace ocellus {
namespace {

// Adds the products of codes 4 * kQuad..4 * kQuad + 3 of each input with eight weight rows.
template <int kQuad, int kInputs>
inline void multiply_quad(const int8_t* weights, const int8x16_t* x, int32x4_t (*products)[2]) {
  const int8x16_t low = vld1q_s8(weights + 4 * kPanelRows * kQuad);
  const int8x16_t high = vld1q_s8(weights + 4 * kPanelRows * kQuad + 16);
#pragma GCC unroll 4
  for (int t = 0; t < kInputs; ++t) {
    products[t][0] = vdotq_laneq_s32(products[t][0], low, x[t], kQuad);
    products[t][1] = vdotq_laneq_s32(products[t][1], high, x[t], kQuad);
  }
}

// Multiplies rows `row`..`row` + 7 of a panel: with four inputs, all sums and operands fit into the registers.
template <int kGroup, int kInputs>
void multiply_half_panel(const WeightPanel& panel, int row, const InputCodes& input, int64_t first, float* sums) {
  const auto* weights = reinterpret_cast<const int8_t*>(panel.codes) + 4 * row;
  float32x4_t total[kInputs][2];
#pragma GCC unroll 4
  for (auto& pair : total) pair[0] = pair[1] = vdupq_n_f32(0.0f);
  for (int64_t g = 0; g < input.cols / kGroup; ++g) {
    int32x4_t products[kInputs][2];
#pragma GCC unroll 4
    for (auto& pair : products) pair[0] = pair[1] = vdupq_n_s32(0);
#pragma GCC unroll 2
    for (int part = 0; part < kGroup / 16; ++part, weights += 16 * kPanelRows) {
      int8x16_t x[kInputs];
#pragma GCC unroll 4
      for (int t = 0; t < kInputs; ++t) x[t] = vld1q_s8(input.codes(first + t) + kGroup * g + 16 * part);
      multiply_quad<0, kInputs>(weights, x, products);
      multiply_quad<1, kInputs>(weights, x, products);
      multiply_quad<2, kInputs>(weights, x, products);
      multiply_quad<3, kInputs>(weights, x, products);
    }
#pragma GCC unroll 4
    for (int t = 0; t < kInputs; ++t) {
      const float input_scale = input.scales(first + t)[g * kGroup / kInputGroup];
      const float input_sum = kGroup == kInputGroup
                                  ? input.sums(first + t)[g]
                                  : input_scale * static_cast<float>(input.half_offsets(first + t)[g]) * kSumOfOffset;
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        const int64_t at = kPanelRows * g + row + 4 * half;
        const float32x4_t scale = vmulq_n_f32(vld1q_f32(panel.scales + at), input_scale);
        total[t][half] = vfmaq_f32(total[t][half], vcvtq_f32_s32(products[t][half]), scale);
        if (panel.minimums != nullptr)
          total[t][half] = vfmsq_n_f32(total[t][half], vld1q_f32(panel.minimums + at), input_sum);
      }
    }
  }
#pragma GCC unroll 4
  for (int t = 0; t < kInputs; ++t) {
    vst1q_f32(sums + kPanelRows * t + row, total[t][0]);
    vst1q_f32(sums + kPanelRows * t + row + 4, total[t][1]);
  }
}

template <int kGroup>
void multiply_panel(const WeightPanel& panel, const InputCodes& input, int64_t first, int count, float* sums) {
  while (count > 0) {
    const int size = count >= 4 ? 4 : count >= 2 ? 2 : 1;
    for (int row = 0; row < kPanelRows; row += 8) {
      if (size == 4) multiply_half_panel<kGroup, 4>(panel, row, input, first, sums);
      if (size == 2) multiply_half_panel<kGroup, 2>(panel, row, input, first, sums);
      if (size == 1) multiply_half_panel<kGroup, 1>(panel, row, input, first, sums);
    }
    count -= size;
    first += size;
    sums += size * kPanelRows;
  }
}

}  // namespace

bool has_native_products() {
  static const bool has = (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
  return has;
}

void multiply_panel_native(const WeightPanel& panel, const InputCodes& input, int64_t first, int count, float* sums) {
  panel.group == 32 ? multiply_panel<32>(panel, input, first, count, sums)
                    : multiply_panel<16>(panel, input, first, count, sums);
}

}  // namespace ocellus

#if defined(__clang__)
#pragma clang attribute pop
#elif !defined(__ARM_FEATURE_DOTPROD)
#pragma GCC pop_options
#endif
#endif

// Offsets and steps of a packed block as the kernels of attend_step load them: pairs of f16 numbers, to which 6-bit
// ones (quant/kv_scales.h) are decoded.
#pragma once

#include "kernels/attention/step/memory_reads.cuh"
#include "quant/kv_scales.h"

namespace ocellus::cuda {

struct BlockScales {
  const std::byte* block;
  int dim;
  KvScaleForm form;

  /// kWords pairs of channels from `channel` on, a multiple of their number; zeros unless wanted.
  template <int kWords>
  __device__ void load_if(bool wanted, KvScaleRow row, int channel, uint32_t (&to)[kWords]) const {
    if (form == KvScaleForm::kF16)
      load_words_if(wanted, reinterpret_cast<const __half*>(block) + row * dim + channel, to);
    else
      decode_if(wanted, row, channel, to);
  }

 private:
  template <int kWords>
  __device__ void decode_if(bool wanted, KvScaleRow row, int channel, uint32_t (&to)[kWords]) const {
    constexpr int kCodeWords = (12 * kWords + 31) / 32;
    uint32_t codes[kCodeWords] = {};
    float2 ends = make_float2(0.0f, 0.0f);  // minimum and width of a level
    if (wanted) {
      const uint32_t both = __ldcg(reinterpret_cast<const uint32_t*>(block + scale_ends_at(row)));
      ends = make_float2(__half2float(__ushort_as_half(both & 0xFFFF)), __half2float(__ushort_as_half(both >> 16)));
      load_codes<kWords>(block + scale_codes_at(row, dim), channel, codes);
    }
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      const __half2 pair = __floats2half2_rn(fmaf(ends.y, code_at(codes, 2 * i), ends.x),
                                             fmaf(ends.y, code_at(codes, 2 * i + 1), ends.x));
      to[i] = *reinterpret_cast<const uint32_t*>(&pair);
    }
  }
  /// Loads the codes of 2 kWords channels, from bit 0 of the first word on. Rows begin on 8 bytes, as E is a multiple
  /// of 32.
  template <int kWords, int kCodeWords>
  static __device__ void load_codes(const std::byte* row, int channel, uint32_t (&to)[kCodeWords]) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(row) + channel / 4 * 3;
    if constexpr (kWords >= 8) {
#pragma unroll
      for (int i = 0; i < kCodeWords; ++i) to[i] = __ldcg(reinterpret_cast<const uint32_t*>(bytes) + i);
    } else if constexpr (kWords == 4) {
      const auto* halves = reinterpret_cast<const unsigned short*>(bytes);
      to[0] = __ldcg(halves) | static_cast<uint32_t>(__ldcg(halves + 1)) << 16;
      to[1] = __ldcg(halves + 2);
    } else {
      static_assert(kWords == 1 || kWords == 2);
      const uint32_t four = __ldcg(bytes) | static_cast<uint32_t>(__ldcg(bytes + 1)) << 8 |
                            static_cast<uint32_t>(__ldcg(bytes + 2)) << 16;
      to[0] = kWords == 1 ? four >> (channel % 4 * 6) : four;
    }
  }
  template <int kCodeWords>
  static __device__ float code_at(const uint32_t (&codes)[kCodeWords], int i) {
    const int word = 6 * i / 32, bit = 6 * i % 32;
    uint32_t code = codes[word] >> bit;
    if (bit > 26) code |= codes[word + 1] << (32 - bit);
    return static_cast<float>(code & KvScaleCoding::kMax);
  }
};

}  // namespace ocellus::cuda

// Weights of any format on the device: whole rows as f16, and the decoder of a format.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/linear/superblock_decoders.cuh"
#include "kernels/linear/weight_codes_k.cuh"
#include "platform/queue.h"
#include "quant/weight_format.h"

namespace ocellus::cuda {

/// Decodes `rows` to f16, padded_cols(columns) values apart, with zeros after the last column; magnitudes above the
/// largest f16 become that. `out` aligned to 16 bytes, the data to 8.
void decode_weights(const WeightView& rows, __half* out, Queue& queue);

/// Has the interface of the types of block_decoders.cuh, using the codes of few-row products.
template <WeightFormat kFormat>
struct DecodeCodes {
  using Format = Blocks<kFormat>;
  static constexpr int kBytes = Format::kBytes, kElements = Format::kElements;
  __device__ static void eight(const uint8_t* block, int part, float (&out)[8]) {
    const int group = part / 4;
    const bool second_half = part % 4 >= 2;
    Words<2> low, high;
    Format::template codes<2>(block, group, 2 * (part % 2), low, high);
    const uint2 codes = second_half ? uint2{high[0], high[1]} : uint2{low[0], low[1]};
    const GroupScale group_scale = Format::scale(block, group);
    const float scale = Format::kHalves && second_half ? group_scale.second : group_scale.scale;
    float minimum = Format::kMinimum ? group_scale.second : 0.0f;
    if constexpr (kHalfMinimums<kFormat>) {
      const uint2 numbers = Format::half_minimums(block, group);
      minimum *= static_cast<float>((second_half ? numbers.y : numbers.x) & 255);
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      out[i] = scale * static_cast<float>(static_cast<int8_t>(byte_of(codes, i)));
      if constexpr (Format::kMinimum) out[i] -= minimum;
    }
  }
};

/// Calls visit(Decoder()) with the format's decoder.
template <class Visit>
void with_decoder(WeightFormat format, Visit visit) {
  switch (format) {
    case WeightFormat::kF32: return visit(DecodeF32());
    case WeightFormat::kF16: return visit(DecodeF16());
    case WeightFormat::kBF16: return visit(DecodeBF16());
    case WeightFormat::kQ8_0: return visit(DecodeQ8_0());
    case WeightFormat::kQ4_0: return visit(DecodeQ4_0());
    case WeightFormat::kQ4_1: return visit(DecodeQ4_1());
    case WeightFormat::kQ5_0: return visit(DecodeQ5_0());
    case WeightFormat::kQ5_1: return visit(DecodeQ5_1());
    case WeightFormat::kQ4_K: return visit(DecodeQ4_K());
    case WeightFormat::kQ5_K: return visit(DecodeQ5_K());
    case WeightFormat::kQ6_K: return visit(DecodeQ6_K());
    case WeightFormat::kIQ4_NL: return visit(DecodeCodes<WeightFormat::kIQ4_NL>());
    case WeightFormat::kQ2_K: return visit(DecodeCodes<WeightFormat::kQ2_K>());
    case WeightFormat::kQ3_K: return visit(DecodeCodes<WeightFormat::kQ3_K>());
    case WeightFormat::kIQ4_XS: return visit(DecodeCodes<WeightFormat::kIQ4_XS>());
    case WeightFormat::kMXFP4: return visit(DecodeCodes<WeightFormat::kMXFP4>());
  }
}

}  // namespace ocellus::cuda

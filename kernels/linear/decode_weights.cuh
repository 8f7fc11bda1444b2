// Weights of any format on the device: whole rows as f16, and the decoder that belongs to a format.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/linear/superblock_decoders.cuh"
#include "platform/queue.h"
#include "quant/weight_format.h"

namespace ocellus::cuda {

/// `rows` as f16, padded_cols(columns) values apart, with zeros behind the last column; magnitudes above the largest
/// f16 become that. `out` aligned to 16 bytes, the data to 8.
void decode_weights(const WeightView& rows, __half* out, Queue& queue);

/// Calls visit(Decoder()) with the type that decodes the format.
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
    case WeightFormat::kIQ4_NL: return visit(DecodeIQ4_NL());
  }
}

}  // namespace ocellus::cuda

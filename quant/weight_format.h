// Weight block formats of GGUF files: layout and plain decoding. Pure data, no model, no threads.
#pragma once

#include <bit>
#include <cstdint>

#include "platform/status.h"
#include "platform/views.h"

namespace ocellus {

/// Supported formats. The numbers are internal; ggml_id in the table is the number used in files.
enum class WeightFormat : uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIQ4_NL,
  kQ2_K,
  kQ3_K,
  kIQ4_XS,
  kMXFP4,
};
inline constexpr int kWeightFormatCount = 16;

struct WeightFormatInfo {
  WeightFormat format;
  const char* name;        // "Q8_0"
  uint32_t ggml_id;        // type number in a GGUF file
  int32_t block_bytes;     // bytes of one block
  int32_t block_elements;  // weights in one block (1 for plain formats)
};

const WeightFormatInfo& format_info(WeightFormat format);
/// Returns nullptr if the ggml type number is not supported.
const WeightFormatInfo* find_format(uint32_t ggml_id);
/// Returns the name of any known ggml type number, supported or not ("IQ3_S"), nullptr if unknown or removed from ggml.
const char* ggml_type_name(uint32_t ggml_id);

/// Bytes of a row of `cols` weights; cols must be a multiple of block_elements.
int64_t row_bytes(WeightFormat format, int64_t cols);

/// A weight matrix [rows, cols] in its file format, rows contiguous. y = W x has `rows` outputs.
struct WeightView {
  const uint8_t* data = nullptr;
  WeightFormat format = WeightFormat::kF32;
  int64_t rows = 0;
  int64_t cols = 0;

  int64_t row_bytes() const { return ocellus::row_bytes(format, cols); }
  const uint8_t* row(int64_t i) const { return data + i * row_bytes(); }
  int64_t bytes() const { return rows * row_bytes(); }
  WeightView slice_rows(int64_t first, int64_t count) const { return {row(first), format, count, cols}; }
};

/// Decodes `cols` weights (a multiple of the block size) to float. Plain loops: the reference for every faster path.
void decode_row(WeightFormat format, const uint8_t* source, int64_t cols, float* out);

/// Convert IEEE half and bfloat16: exact to float, round-to-nearest-even from float.
Half float_to_half(float value);
inline float bfloat16_to_float(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

// Branch-free, so that loops over block scales vectorise. Normal values keep their fraction and get the exponent of
// float by a multiplication; subnormal ones are placed in the last bits of 0.5 and 0.5 is subtracted.
inline float half_to_float(Half value) {
  const uint32_t sign = (value.bits & 0x8000u) << 16;
  const uint32_t magnitude = value.bits & 0x7FFFu;
  const float normal = std::bit_cast<float>((magnitude << 13) + 0x70000000u) * 0x1p-112f;
  const float subnormal = std::bit_cast<float>(magnitude | 0x3F000000u) - 0.5f;
  const float result = magnitude < 0x0400u ? subnormal : normal;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(result) | sign);
}

}  // namespace ocellus

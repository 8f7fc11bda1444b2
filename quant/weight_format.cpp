#include "quant/weight_format.h"

#include <cstring>

#include "quant/block_codes.h"

namespace ocellus {
namespace {

// Facts in the order of WeightFormat.
constexpr WeightFormatInfo kFormats[kWeightFormatCount] = {
    {WeightFormat::kF32, "F32", 0, 4, 1},
    {WeightFormat::kF16, "F16", 1, 2, 1},
    {WeightFormat::kBF16, "BF16", 30, 2, 1},
    {WeightFormat::kQ8_0, "Q8_0", 8, 34, 32},
    {WeightFormat::kQ4_0, "Q4_0", 2, 18, 32},
    {WeightFormat::kQ4_1, "Q4_1", 3, 20, 32},
    {WeightFormat::kQ5_0, "Q5_0", 6, 22, 32},
    {WeightFormat::kQ5_1, "Q5_1", 7, 24, 32},
    {WeightFormat::kQ4_K, "Q4_K", 12, 144, 256},
    {WeightFormat::kQ5_K, "Q5_K", 13, 176, 256},
    {WeightFormat::kQ6_K, "Q6_K", 14, 210, 256},
    {WeightFormat::kIQ4_NL, "IQ4_NL", 20, 18, 32},
    {WeightFormat::kQ2_K, "Q2_K", 10, 84, 256},
    {WeightFormat::kQ3_K, "Q3_K", 11, 110, 256},
    {WeightFormat::kIQ4_XS, "IQ4_XS", 23, 136, 256},
    {WeightFormat::kMXFP4, "MXFP4", 39, 17, 32},
};

// Names by the type number of ggml.h; null where ggml removed the type.
constexpr const char* kGgmlNames[] = {
    "F32",    "F16",   "Q4_0",  "Q4_1",   nullptr, nullptr, "Q5_0",    "Q5_1",   "Q8_0",    "Q8_1",
    "Q2_K",   "Q3_K",  "Q4_K",  "Q5_K",   "Q6_K",  "Q8_K",  "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S",
    "IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS", "I8",    "I16",   "I32",     "I64",    "F64",     "IQ1_M",
    "BF16",   nullptr, nullptr, nullptr,  "TQ1_0", "TQ2_0", nullptr,   nullptr,  nullptr,   "MXFP4",
};

constexpr int kLargestBlock = 256;
constexpr int kSmallestGroup = 16;

void decode_block(WeightFormat format, const uint8_t* block, int elements, float* out) {
  int8_t codes[kLargestBlock];
  float scales[kLargestBlock / kSmallestGroup];
  float minimums[kLargestBlock / kSmallestGroup] = {};
  decode_codes(format, block, elements, codes, scales, minimums);
  const CodeLayout layout = code_layout(format);
  const int group = layout.group_elements;
  for (int i = 0; i < elements; ++i) {
    const int8_t code = layout.levels == nullptr ? codes[i] : layout.levels[codes[i]];
    out[i] = scales[i / group] * static_cast<float>(code) - minimums[i / group];
  }
}

}  // namespace

const WeightFormatInfo& format_info(WeightFormat format) { return kFormats[static_cast<int>(format)]; }

const WeightFormatInfo* find_format(uint32_t ggml_id) {
  for (const WeightFormatInfo& info : kFormats)
    if (info.ggml_id == ggml_id) return &info;
  return nullptr;
}

const char* ggml_type_name(uint32_t ggml_id) {
  return ggml_id < sizeof kGgmlNames / sizeof kGgmlNames[0] ? kGgmlNames[ggml_id] : nullptr;
}

int64_t row_bytes(WeightFormat format, int64_t cols) {
  const WeightFormatInfo& info = format_info(format);
  return cols / info.block_elements * info.block_bytes;
}

void decode_row(WeightFormat format, const uint8_t* source, int64_t cols, float* out) {
  if (format == WeightFormat::kF32) {
    std::memcpy(out, source, static_cast<size_t>(cols) * sizeof(float));
  } else if (format == WeightFormat::kF16 || format == WeightFormat::kBF16) {
    for (int64_t i = 0; i < cols; ++i) {
      Half value;
      std::memcpy(&value.bits, source + 2 * i, 2);
      out[i] = format == WeightFormat::kF16 ? half_to_float(value) : bfloat16_to_float(value.bits);
    }
  } else {
    const WeightFormatInfo& info = format_info(format);
    for (int64_t i = 0; i < cols; i += info.block_elements, source += info.block_bytes)
      decode_block(format, source, info.block_elements, out + i);
  }
}

Half float_to_half(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  uint32_t half;
  if (magnitude > 0x7F800000u) {
    half = 0x7E00u;  // not a number
  } else if (magnitude >= 0x477FF000u) {
    half = 0x7C00u;  // 65520 and more round to infinity
  } else if (magnitude < 0x38800000u) {
    // Below 2^-14 the result is subnormal: in 0.5 + value the last bit is worth 2^-24, so the addition rounds.
    half = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3F000000u;
  } else {
    half = (magnitude - 0x38000000u + 0x0FFFu + ((magnitude >> 13) & 1u)) >> 13;
  }
  return {static_cast<uint16_t>(sign | half)};
}

}  // namespace ocellus

#include "runtime/models/file_type.h"

#include <strings.h>

#include <cstdio>
#include <cstring>

namespace ocellus {
namespace {

using enum WeightFormat;

struct NamedType {
  const char* name;
  FileType type;
};

// A block format's name alone means what llama-quantize takes it for. There is no type of MXFP4 but for experts.
const NamedType kTypes[] = {
    {"F32", kF32},
    {"F16", kF16},
    {"BF16", kBF16},
    {"Q8_0", {kQ8_0, Mixture::kUsual}},
    {"Q4_0", {kQ4_0, Mixture::kUsual}},
    {"Q4_1", {kQ4_1, Mixture::kUsual}},
    {"Q5_0", {kQ5_0, Mixture::kUsual}},
    {"Q5_1", {kQ5_1, Mixture::kUsual}},
    {"Q2_K", {kQ2_K, Mixture::kQ2_K}},
    {"Q2_K_S", {kQ2_K, Mixture::kQ2_K_S}},
    {"Q3_K", {kQ3_K, Mixture::kQ3_K_M}},
    {"Q3_K_S", {kQ3_K, Mixture::kUsual}},
    {"Q3_K_M", {kQ3_K, Mixture::kQ3_K_M}},
    {"Q3_K_L", {kQ3_K, Mixture::kQ3_K_L}},
    {"Q4_K", {kQ4_K, Mixture::kQ4_K_M}},
    {"Q4_K_S", {kQ4_K, Mixture::kQ4_K_S}},
    {"Q4_K_M", {kQ4_K, Mixture::kQ4_K_M}},
    {"Q5_K", {kQ5_K, Mixture::kQ5_K_M}},
    {"Q5_K_S", {kQ5_K, Mixture::kUsual}},
    {"Q5_K_M", {kQ5_K, Mixture::kQ5_K_M}},
    {"Q6_K", {kQ6_K, Mixture::kUsual}},
    {"IQ4_NL", {kIQ4_NL, Mixture::kIQ4}},
    {"IQ4_XS", {kIQ4_XS, Mixture::kIQ4}},
    {"MXFP4", kMXFP4},
};

constexpr const char kPure[] = "-pure";

/// Layers that the mixtures called "M" give more bits: the first and the last eighth, and every third between.
bool gets_more_bits(int32_t layer, int32_t layers) {
  return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
}

WeightFormat fallback_of(WeightFormat format) {
  switch (format) {
    case kIQ4_XS: return kIQ4_NL;
    case kQ2_K:
    case kQ3_K: return kQ4_0;
    case kQ4_K: return kQ5_0;
    case kQ5_K: return kQ5_1;
    case kQ6_K: return kQ8_0;
    default: return kF16;
  }
}

bool divides(WeightFormat format, int64_t cols) { return cols % format_info(format).block_elements == 0; }

}  // namespace

Status find_file_type(const char* name, FileType* out) {
  char names[256] = {};
  size_t used = 0;
  for (const NamedType& known : kTypes) {
    used +=
        static_cast<size_t>(std::snprintf(names + used, sizeof names - used, "%s%s", used > 0 ? ", " : "", known.name));
    const size_t length = std::strlen(known.name);
    if (::strncasecmp(name, known.name, length) != 0) continue;
    if (name[length] != '\0' && ::strcasecmp(name + length, kPure) != 0) continue;
    *out = name[length] == '\0' ? known.type : known.type.main;
    return {};
  }
  return OCELLUS_FAIL(Code::kBadArgument,
                      "there is no weight format named '%.16s': choose one of %s, or with %s after it", name, names,
                      kPure);
}

WeightFormat format_that_fits(WeightFormat format, int64_t cols) {
  if (divides(format, cols)) return format;
  return divides(fallback_of(format), cols) ? fallback_of(format) : kF16;
}

WeightFormat FileFormats::next(std::string_view name, int64_t cols) {
  return format_that_fits(type_.mixture == Mixture::kPure ? type_.main : choose(name, cols), cols);
}

WeightFormat FileFormats::choose(std::string_view name, int64_t cols) {
  const auto is = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
  const bool embeds = name == "token_embd.weight" || name == "per_layer_token_embd.weight";
  if (is("per_layer_model_proj")) return kF16;  // stays as converted
  if (name == "output.weight" || (embeds && model_.tied))
    return type_.main == kQ8_0 || !divides(type_.main, cols) ? kQ8_0 : kQ6_K;
  if (is("attn_v.weight")) return choose_values(next_values_++);
  if (is("ffn_down")) return choose_down(next_down_++);
  if (!is("attn_output.weight")) return type_.main;
  switch (type_.mixture) {
    case Mixture::kQ2_K: return kQ3_K;
    case Mixture::kQ3_K_M: return kQ4_K;
    case Mixture::kQ3_K_L: return kQ5_K;
    default: return type_.main;
  }
}

WeightFormat FileFormats::choose_values(int32_t layer) const {
  const bool grouped = model_.group >= 4;
  switch (type_.mixture) {
    case Mixture::kQ2_K: return grouped ? kQ4_K : kQ3_K;
    case Mixture::kQ2_K_S: return grouped ? kQ4_K : kQ2_K;
    case Mixture::kQ3_K_M: return layer < 2 ? kQ5_K : kQ4_K;
    case Mixture::kQ3_K_L: return kQ5_K;
    case Mixture::kIQ4: return grouped ? kQ5_K : type_.main;
    case Mixture::kQ4_K_S: return layer < 4 ? kQ5_K : kQ4_K;
    case Mixture::kQ4_K_M:
    case Mixture::kQ5_K_M: return gets_more_bits(layer, model_.value_layers) ? kQ6_K : type_.main;
    default: return type_.main;
  }
}

WeightFormat FileFormats::choose_down(int32_t layer) const {
  const bool first = layer < model_.layers / 8;
  switch (type_.mixture) {
    case Mixture::kQ2_K: return kQ3_K;
    case Mixture::kQ2_K_S: return first ? kQ4_K : kQ2_K;
    case Mixture::kQ3_K_M: return layer < model_.layers / 16 ? kQ5_K : kQ4_K;
    case Mixture::kQ3_K_L: return kQ5_K;
    case Mixture::kIQ4:
    case Mixture::kQ4_K_S: return first ? kQ5_K : type_.main;
    case Mixture::kQ4_K_M:
    case Mixture::kQ5_K_M: return gets_more_bits(layer, model_.layers) ? kQ6_K : type_.main;
    default: return type_.main;
  }
}

}  // namespace ocellus

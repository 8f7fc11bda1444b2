#include "runtime/models/model_shapes.h"

#include <strings.h>

#include <algorithm>
#include <cstdio>
#include <iterator>

namespace ocellus {
namespace {

// SigLIP towers. google/siglip-base-patch16-512 and google/siglip-so400m-patch14-384, as the model cards below use
// them.
constexpr VisionConfig siglip_base(int32_t text_width) {
  return {.image_size = 512,
          .patch_size = 16,
          .width = 768,
          .mlp_width = 3072,
          .layer_count = 12,
          .heads = 12,
          .scale_factor = 4,
          .output_width = text_width,
          .longest_edge = 2048,
          .image_mean = {0.5f, 0.5f, 0.5f},
          .image_std = {0.5f, 0.5f, 0.5f}};
}

constexpr VisionConfig siglip_so400m(int32_t text_width) {
  return {.image_size = 384,
          .patch_size = 14,
          .width = 1152,
          .mlp_width = 4304,
          .layer_count = 27,
          .heads = 16,
          .scale_factor = 3,
          .output_width = text_width,
          .longest_edge = 1536,
          .image_mean = {0.5f, 0.5f, 0.5f},
          .image_std = {0.5f, 0.5f, 0.5f}};
}

// openai/clip-vit-large-patch14-336 up to the layer before the last of its 24, and LLaVA-1.5's projector behind it.
constexpr VisionConfig clip_vit_large(int32_t text_width) {
  return {.projector = ProjectorKind::kMlp,
          .tower = TowerKind::kClip,
          .activation = Activation::kQuickGelu,
          .image_size = 336,
          .patch_size = 14,
          .width = 1024,
          .mlp_width = 4096,
          .layer_count = 23,
          .heads = 16,
          .projector_width = text_width,
          .output_width = text_width,
          .epsilon = 1e-5f,
          .image_mean = {0.48145466f, 0.4578275f, 0.40821073f},
          .image_std = {0.26862954f, 0.26130258f, 0.27577711f}};
}

// From config.json of the model named in each comment. The dynamic rope scaling of InternLM2.5 starts beyond the
// context length given here, so it is left out.
constexpr ModelShape kShapes[] = {
    // HuggingFaceTB/SmolVLM-256M-Instruct
    {.name = "SmolVLM-256M",
     .text = {.layer_count = 30,
              .width = 576,
              .query_heads = 9,
              .kv_heads = 3,
              .head_dim = 64,
              .mlp_width = 1536,
              .vocabulary = 49280,
              .context_length = 8192,
              .rope = {.base = 100000.0f}},
     .vision = siglip_base(576)},
    // HuggingFaceTB/SmolVLM-500M-Instruct
    {.name = "SmolVLM-500M",
     .text = {.layer_count = 32,
              .width = 960,
              .query_heads = 15,
              .kv_heads = 5,
              .head_dim = 64,
              .mlp_width = 2560,
              .vocabulary = 49280,
              .context_length = 8192,
              .rope = {.base = 100000.0f}},
     .vision = siglip_base(960)},
    // HuggingFaceTB/SmolVLM2-2.2B-Instruct
    {.name = "SmolVLM2-2.2B",
     .text = {.layer_count = 24,
              .width = 2048,
              .query_heads = 32,
              .kv_heads = 32,
              .head_dim = 64,
              .mlp_width = 8192,
              .vocabulary = 49280,
              .context_length = 8192,
              .rope = {.base = 130000.0f}},
     .vision = siglip_so400m(2048)},
    // liuhaotian/llava-v1.5-7b: the language model is lmsys/vicuna-7b-v1.5
    {.name = "LLaVA-1.5-7B",
     .text = {.layer_count = 32,
              .width = 4096,
              .query_heads = 32,
              .kv_heads = 32,
              .head_dim = 128,
              .mlp_width = 11008,
              .vocabulary = 32000,
              .context_length = 4096,
              .rope = {.base = 10000.0f}},
     .vision = clip_vit_large(4096)},
    // liuhaotian/llava-v1.5-13b: the language model is lmsys/vicuna-13b-v1.5
    {.name = "LLaVA-1.5-13B",
     .text = {.layer_count = 40,
              .width = 5120,
              .query_heads = 40,
              .kv_heads = 40,
              .head_dim = 128,
              .mlp_width = 13824,
              .vocabulary = 32000,
              .context_length = 4096,
              .rope = {.base = 10000.0f}},
     .vision = clip_vit_large(5120)},
    // liuhaotian/llava-v1.6-vicuna-7b and -mistral-7b, without their towers: lmsys/vicuna-7b-v1.5 and
    // mistralai/Mistral-7B-Instruct-v0.2
    {.name = "LLaVA-1.6-Vicuna-7B",
     .text = {.layer_count = 32,
              .width = 4096,
              .query_heads = 32,
              .kv_heads = 32,
              .head_dim = 128,
              .mlp_width = 11008,
              .vocabulary = 32000,
              .context_length = 4096,
              .rope = {.base = 10000.0f}}},
    {.name = "LLaVA-1.6-Mistral-7B",
     .text = {.layer_count = 32,
              .width = 4096,
              .query_heads = 32,
              .kv_heads = 8,
              .head_dim = 128,
              .mlp_width = 14336,
              .vocabulary = 32000,
              .context_length = 32768,
              .rope = {.base = 1000000.0f}}},
    // OpenGVLab/InternVL2_5-8B, without its tower: llm_config, which is internlm/internlm2_5-7b-chat with nine more
    // tokens
    {.name = "InternVL2.5-8B",
     .text = {.architecture = find_text_architecture("internlm2"),
              .layer_count = 32,
              .width = 4096,
              .query_heads = 32,
              .kv_heads = 8,
              .head_dim = 128,
              .mlp_width = 14336,
              .vocabulary = 92553,
              .context_length = 32768,
              .rope = {.base = 1000000.0f}}},
    // OpenGVLab/InternVL2_5-26B, without its tower: llm_config, which is internlm/internlm2_5-20b-chat with nine more
    {.name = "InternVL2.5-26B",
     .text = {.architecture = find_text_architecture("internlm2"),
              .layer_count = 48,
              .width = 6144,
              .query_heads = 48,
              .kv_heads = 8,
              .head_dim = 128,
              .mlp_width = 16384,
              .vocabulary = 92553,
              .context_length = 32768,
              .rope = {.base = 50000000.0f}}},
    // OpenGVLab/InternVL3-2B, without its tower: llm_config, which is Qwen/Qwen2.5-1.5B with nine more tokens and an
    // output matrix of its own
    {.name = "InternVL3-2B",
     .text = {.architecture = find_text_architecture("qwen2"),
              .layer_count = 28,
              .width = 1536,
              .query_heads = 12,
              .kv_heads = 2,
              .head_dim = 128,
              .mlp_width = 8960,
              .vocabulary = 151674,
              .context_length = 32768,
              .epsilon = 1e-6f,
              .rope = {.base = 1000000.0f}}},
    // OpenGVLab/InternVL3_5-2B, without its tower: llm_config, which is Qwen/Qwen3-1.7B with an output matrix of its
    // own
    {.name = "InternVL3.5-2B",
     .text = {.architecture = find_text_architecture("qwen3"),
              .layer_count = 28,
              .width = 2048,
              .query_heads = 16,
              .kv_heads = 8,
              .head_dim = 128,
              .mlp_width = 6144,
              .vocabulary = 151936,
              .context_length = 40960,
              .epsilon = 1e-6f,
              .rope = {.base = 1000000.0f}}},
    // Qwen/Qwen2.5-0.5B-Instruct
    {.name = "Qwen2.5-0.5B",
     .text = {.architecture = find_text_architecture("qwen2"),
              .layer_count = 24,
              .width = 896,
              .query_heads = 14,
              .kv_heads = 2,
              .head_dim = 64,
              .mlp_width = 4864,
              .vocabulary = 151936,
              .context_length = 32768,
              .epsilon = 1e-6f,
              .rope = {.base = 1000000.0f}},
     .tied = true},
    // Qwen/Qwen2.5-1.5B-Instruct
    {.name = "Qwen2.5-1.5B",
     .text = {.architecture = find_text_architecture("qwen2"),
              .layer_count = 28,
              .width = 1536,
              .query_heads = 12,
              .kv_heads = 2,
              .head_dim = 128,
              .mlp_width = 8960,
              .vocabulary = 151936,
              .context_length = 32768,
              .epsilon = 1e-6f,
              .rope = {.base = 1000000.0f}},
     .tied = true},
};

/// Puts names one behind the other, as far as they fit.
class NameList {
 public:
  void add(const char* name) {
    const int written = std::snprintf(text_ + used_, sizeof text_ - used_, "%s%s", used_ > 0 ? ", " : "", name);
    if (written > 0 && used_ + static_cast<size_t>(written) < sizeof text_) used_ += static_cast<size_t>(written);
  }
  const char* text() const { return text_; }

 private:
  char text_[512] = {};
  size_t used_ = 0;
};

}  // namespace

int32_t model_shape_count() { return static_cast<int32_t>(std::size(kShapes)); }

const ModelShape& model_shape(int32_t index) { return kShapes[index]; }

Status find_model_shape(const char* name, const ModelShape** out) {
  NameList names;
  for (const ModelShape& shape : kShapes) {
    names.add(shape.name);
    if (::strcasecmp(name, shape.name) != 0) continue;
    *out = &shape;
    return {};
  }
  return OCELLUS_FAIL(Code::kBadArgument, "there is no shape named '%.64s': choose one of %s", name, names.text());
}

Status with_layers(const ModelShape& shape, int32_t layers, ModelShape* out) {
  if (layers < 0 || layers > shape.text.layer_count)
    return OCELLUS_FAIL(Code::kBadArgument, "%s cannot have %d layers: choose 1 to %d", shape.name, layers,
                        shape.text.layer_count);
  *out = shape;
  if (layers == 0) return {};
  out->text.layer_count = layers;
  out->vision.layer_count = std::min(layers, shape.vision.layer_count);
  return {};
}

Status find_shape_format(const char* name, WeightFormat* out) {
  NameList names;
  for (int i = 0; i < kWeightFormatCount; ++i) {
    const WeightFormatInfo& info = format_info(static_cast<WeightFormat>(i));
    names.add(info.name);
    if (::strcasecmp(name, info.name) != 0) continue;
    *out = info.format;
    return {};
  }
  return OCELLUS_FAIL(Code::kBadArgument, "there is no weight format named '%.16s': choose one of %s", name,
                      names.text());
}

WeightFormat format_that_fits(WeightFormat format, int64_t cols) {
  for (const WeightFormat candidate : {format, WeightFormat::kQ8_0})
    if (cols % format_info(candidate).block_elements == 0) return candidate;
  return WeightFormat::kF16;
}

}  // namespace ocellus

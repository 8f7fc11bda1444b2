#include "mm/tower/vision_model.h"

#include <cstdio>

#include "quant/gguf_names.h"

namespace ocellus {
namespace {

constexpr int64_t kMaxLayers = 512;
constexpr int64_t kMaxImageSize = 4096;

/// The first files of LLaVA-1.5 only state that they have its projector.
Status read_projector_type(const GgufFile& file, std::string_view* kind) {
  bool is_llava = false;
  OCELLUS_TRY(file.read_string("clip.projector_type", kind));
  if (kind->empty()) OCELLUS_TRY(file.read_string("clip.vision.projector_type", kind));
  OCELLUS_TRY(file.read_bool("clip.has_llava_projector", &is_llava));
  if (kind->empty() && is_llava) *kind = "mlp";
  return kind->empty() ? file.require_string("clip.vision.projector_type", kind) : Status();
}

Status read_family(const GgufFile& file, std::span<const VisionFamily* const> families, VisionConfig* config) {
  std::string_view architecture;
  OCELLUS_TRY(file.require_string("general.architecture", &architecture));
  if (architecture != "clip")
    return OCELLUS_FAIL(Code::kBadFile, "general.architecture is '%.*s', not 'clip': this is not an mmproj file",
                        shown_bytes(architecture), architecture.data());
  bool has_vision = false;
  OCELLUS_TRY(file.read_bool("clip.has_vision_encoder", &has_vision));
  if (!has_vision)
    return OCELLUS_FAIL(Code::kUnsupported, "clip.has_vision_encoder is not set: the file holds no vision tower");
  std::string_view kind;
  OCELLUS_TRY(read_projector_type(file, &kind));
  for (const VisionFamily* family : families) {
    if (kind != family->projector && kind != family->old_projector) continue;
    if (family->claims != nullptr && !family->claims(file)) continue;
    config->family = family;
    return {};
  }
  char known[256] = {};
  size_t used = 0;
  for (const VisionFamily* family : families) {
    if (std::string_view(known).find(family->projector) != std::string_view::npos) continue;
    const int written =
        std::snprintf(known + used, sizeof known - used, "%s'%s'", used > 0 ? ", " : "", family->projector);
    if (written > 0 && used + static_cast<size_t>(written) < sizeof known) used += static_cast<size_t>(written);
  }
  return OCELLUS_FAIL(Code::kUnsupported, "clip.projector_type '%.*s' is not supported: this build runs %s",
                      shown_bytes(kind), kind.data(), known);
}

Status read_activation(const GgufFile& file, VisionConfig* config) {
  bool gelu = false;
  bool silu = false;
  OCELLUS_TRY(file.read_bool("clip.use_gelu", &gelu));
  OCELLUS_TRY(file.read_bool("clip.use_silu", &silu));
  if (gelu && silu) return OCELLUS_FAIL(Code::kBadFile, "clip.use_gelu and clip.use_silu are both set");
  config->activation = gelu ? Activation::kGeluTanh : silu ? Activation::kSilu : Activation::kQuickGelu;
  return {};
}

Status check_geometry(const VisionConfig& c) {
  if (c.width % c.heads != 0 || c.head_dim() % 8 != 0 || c.head_dim() > 256)
    return OCELLUS_FAIL(
        Code::kUnsupported,
        "clip.vision.embedding_length %d over %d heads gives no head size that is a multiple of 8 up to 256", c.width,
        c.heads);
  const PatchGrid grid = c.grid(c.view_size());
  if (grid.cols < 1)
    return OCELLUS_FAIL(Code::kBadFile, "clip.vision.patch_size %d is larger than the image", c.patch_size);
  if (grid.cols % c.scale_factor != 0)
    return OCELLUS_FAIL(Code::kBadFile,
                        "clip.vision.projector.scale_factor %d does not divide the %d patches of a side",
                        c.scale_factor, grid.cols);
  if (grid.count() > 16384)
    return OCELLUS_FAIL(Code::kUnsupported, "%d patches per view are more than this build runs", grid.count());
  if (!(c.epsilon >= 0)) return OCELLUS_FAIL(Code::kBadFile, "clip.vision.attention.layer_norm_epsilon is negative");
  for (float deviation : c.image_std)
    if (!(deviation > 0))
      return OCELLUS_FAIL(Code::kBadFile, "clip.vision.image_std holds a value that is not positive");
  return {};
}

/// Old files name the first MLP matrix ffn_down and the second ffn_up; the shape shows it.
bool mlp_names_are_swapped(const LayerBinder& layer, const VisionConfig& c) {
  const GgufTensor* down = layer.find("ffn_down");
  return down != nullptr && c.width != c.mlp_width && down->cols() == c.width;
}

/// Some files hold the three maps as one matrix.
Status bind_attention_maps(const LayerBinder& layer, const VisionConfig& c, VisionLayer* out) {
  BoundedLinear* const maps[] = {&out->query, &out->key, &out->value};
  if (layer.find("attn_qkv") == nullptr) {
    constexpr const char* kParts[] = {"attn_q", "attn_k", "attn_v"};
    for (int i = 0; i < 3; ++i) OCELLUS_TRY(layer.linear(kParts[i], c.width, c.width, maps[i]));
    return {};
  }
  Linear all;
  OCELLUS_TRY(layer.linear("attn_qkv", 3 * int64_t{c.width}, c.width, &all));
  if (all.weight.data == nullptr) return {};
  for (int i = 0; i < 3; ++i) {
    maps[i]->weight = all.weight.slice_rows(i * int64_t{c.width}, c.width);
    maps[i]->bias = all.bias == nullptr ? nullptr : all.bias + i * c.width;
  }
  return {};
}

/// Without a class row of its own, positions are added as stored in the file.
Status bind_positions(const TensorBinder& binder, const VisionConfig& c, VisionModel* out) {
  if (c.position_rows() == 0) return {};
  OCELLUS_TRY(binder.matrix("v.position_embd.weight", c.position_rows(), c.width, &out->positions));
  if (c.class_rows > 0) return binder.vector("v.class_embd", c.width, &out->class_row);
  if (out->positions.format == WeightFormat::kF32) return {};
  return OCELLUS_FAIL(Code::kUnsupported, "tensor 'v.position_embd.weight' must be F32");
}

}  // namespace

Status bind_layer_norms(const LayerBinder& layer, const VisionConfig& c, VisionLayer* out) {
  OCELLUS_TRY(layer.norm("ln1", c.width, &out->attention_norm.weight, &out->attention_norm.bias));
  return layer.norm("ln2", c.width, &out->mlp_norm.weight, &out->mlp_norm.bias);
}

Status bind_rms_norms(const LayerBinder& layer, const VisionConfig& c, VisionLayer* out) {
  OCELLUS_TRY(layer.norm("ln1", c.width, &out->attention_norm.weight));
  return layer.norm("ln2", c.width, &out->mlp_norm.weight);
}

Status bind_attention(const LayerBinder& layer, const VisionConfig& c, VisionLayer* out) {
  OCELLUS_TRY(bind_attention_maps(layer, c, out));
  return layer.linear("attn_out", c.width, c.width, &out->attention_output);
}

Status bind_mlp(const LayerBinder& layer, const VisionConfig& c, VisionLayer* out) {
  const bool swapped = mlp_names_are_swapped(layer, c);
  OCELLUS_TRY(layer.linear(swapped ? "ffn_down" : "ffn_up", c.mlp_width, c.width, &out->mlp_up));
  return layer.linear(swapped ? "ffn_up" : "ffn_down", c.width, c.mlp_width, &out->mlp_down);
}

Status bind_plain_layer(const LayerBinder& layer, const VisionConfig& c, VisionLayer* out) {
  OCELLUS_TRY(bind_layer_norms(layer, c, out));
  OCELLUS_TRY(bind_attention(layer, c, out));
  return bind_mlp(layer, c, out);
}

Status bind_gated_layer(const LayerBinder& layer, const VisionConfig& c, VisionLayer* out) {
  OCELLUS_TRY(bind_rms_norms(layer, c, out));
  OCELLUS_TRY(bind_attention(layer, c, out));
  OCELLUS_TRY(layer.linear("ffn_gate", c.mlp_width, c.width, &out->mlp_gate));
  return bind_mlp(layer, c, out);
}

Status read_vision_size(const GgufFile& file, const char* key, int64_t most, int32_t* out) {
  int64_t value = 0;
  OCELLUS_TRY(file.require_int(key, 1, most, &value));
  *out = static_cast<int32_t>(value);
  return {};
}

Status read_vision_rows(const GgufFile& file, const char* name, int32_t* out) {
  const GgufTensor* tensor = file.find_tensor(name);
  if (tensor == nullptr) return OCELLUS_FAIL(Code::kBadFile, "tensor '%s' is missing", name);
  if (tensor->rows() > kMaxVisionWidth)
    return OCELLUS_FAIL(Code::kUnsupported, "tensor '%s' has %lld rows, more than this build runs", name,
                        static_cast<long long>(tensor->rows()));
  *out = static_cast<int32_t>(tensor->rows());
  return {};
}

Status read_vision_config(const GgufFile& file, std::span<const VisionFamily* const> families, VisionConfig* out) {
  VisionConfig c;
  OCELLUS_TRY(read_family(file, families, &c));
  OCELLUS_TRY(read_activation(file, &c));
  OCELLUS_TRY(read_vision_size(file, "clip.vision.image_size", kMaxImageSize, &c.image_size));
  OCELLUS_TRY(read_vision_size(file, "clip.vision.patch_size", kMaxImageSize, &c.patch_size));
  OCELLUS_TRY(read_vision_size(file, "clip.vision.embedding_length", kMaxVisionWidth, &c.width));
  OCELLUS_TRY(read_vision_size(file, "clip.vision.block_count", kMaxLayers, &c.layer_count));
  OCELLUS_TRY(read_vision_size(file, "clip.vision.attention.head_count", 1024, &c.heads));
  OCELLUS_TRY(file.require_float("clip.vision.attention.layer_norm_epsilon", &c.epsilon));
  OCELLUS_TRY(file.require_floats("clip.vision.image_mean", 3, c.image_mean));
  OCELLUS_TRY(file.require_floats("clip.vision.image_std", 3, c.image_std));
  c.tower = c.family->tower;
  OCELLUS_TRY(c.family->read(file, &c));
  if (c.mlp_width == 0)
    OCELLUS_TRY(read_vision_size(file, "clip.vision.feed_forward_length", kMaxVisionWidth * 4, &c.mlp_width));
  OCELLUS_TRY(check_geometry(c));
  *out = c;
  return {};
}

Status bind_vision_model(const GgufFile& file, const VisionConfig& config, const uint8_t* base, VisionModel* out) {
  const TensorBinder binder(file, {.data = base});
  const VisionConfig& c = config;
  out->config = c;
  OCELLUS_TRY(binder.matrix("v.patch_embd.weight", c.width, c.patch_values(), &out->patch_embedding.weight));
  OCELLUS_TRY(binder.optional_vector("v.patch_embd.bias", c.width, &out->patch_embedding.bias));
  if (c.frame_kernels > 1)
    OCELLUS_TRY(binder.matrix("v.patch_embd.weight.1", c.width, c.patch_values(), &out->next_frame_embedding));
  OCELLUS_TRY(bind_positions(binder, c, out));
  OCELLUS_TRY(out->layers.resize(c.layer_count));
  for (int i = 0; i < c.layer_count; ++i) OCELLUS_TRY(c.tower->bind_layer({binder, "v.blk", i}, c, &out->layers[i]));
  return c.family->bind(binder, out);
}

}  // namespace ocellus

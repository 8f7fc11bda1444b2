#include "mm/tower/vision_model.h"

#include <cstring>

#include "quant/gguf_names.h"

namespace ocellus {
namespace {

// Bounds of anything a real tower has, far below what could overflow a product.
constexpr int64_t kMaxWidth = 1 << 16;
constexpr int64_t kMaxLayers = 512;
constexpr int64_t kMaxImageSize = 4096;
constexpr int64_t kMaxLongestEdge = 16384;

Status read_size(const GgufFile& file, const char* key, int64_t most, int32_t* out) {
  int64_t value = 0;
  OCELLUS_TRY(file.require_int(key, 1, most, &value));
  *out = static_cast<int32_t>(value);
  return {};
}

/// The first files of LLaVA-1.5 only say that they have its projector.
Status read_projector_type(const GgufFile& file, std::string_view* kind) {
  bool is_llava = false;
  OCELLUS_TRY(file.read_string("clip.projector_type", kind));
  if (kind->empty()) OCELLUS_TRY(file.read_string("clip.vision.projector_type", kind));
  OCELLUS_TRY(file.read_bool("clip.has_llava_projector", &is_llava));
  if (kind->empty() && is_llava) *kind = projector_name(ProjectorKind::kMlp);
  return kind->empty() ? file.require_string("clip.vision.projector_type", kind) : Status();
}

Status read_projector(const GgufFile& file, VisionConfig* config) {
  std::string_view architecture;
  OCELLUS_TRY(file.require_string("general.architecture", &architecture));
  if (architecture != "clip")
    return OCELLUS_FAIL(Code::kBadFile, "general.architecture is '%.*s', not 'clip': this is no mmproj file",
                        shown_bytes(architecture), architecture.data());
  bool has_vision = false;
  OCELLUS_TRY(file.read_bool("clip.has_vision_encoder", &has_vision));
  if (!has_vision)
    return OCELLUS_FAIL(Code::kUnsupported, "clip.has_vision_encoder is not set: the file holds no vision tower");
  std::string_view kind;
  OCELLUS_TRY(read_projector_type(file, &kind));
  for (const ProjectorKind known : {ProjectorKind::kIdefics3, ProjectorKind::kMlp}) {
    if (kind != projector_name(known)) continue;
    config->projector = known;
    config->tower = known == ProjectorKind::kMlp ? TowerKind::kClip : TowerKind::kSiglip;
    return {};
  }
  return OCELLUS_FAIL(Code::kUnsupported,
                      "clip.projector_type '%.*s' is not supported: this build runs 'idefics3' and 'mlp'",
                      shown_bytes(kind), kind.data());
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

Status read_idefics3(const GgufFile& file, VisionConfig* c) {
  int64_t scale = 1;
  int64_t longest_edge = 0;
  OCELLUS_TRY(read_size(file, "clip.vision.projection_dim", kMaxWidth, &c->output_width));
  OCELLUS_TRY(file.read_int("clip.vision.projector.scale_factor", 1, 64, &scale));
  OCELLUS_TRY(file.read_int("clip.vision.preproc_image_size", 0, kMaxLongestEdge, &longest_edge));
  c->scale_factor = static_cast<int32_t>(scale);
  c->longest_edge = static_cast<int32_t>(longest_edge);
  return {};
}

/// A file says which layer's rows the projector reads, or holds no layers behind it: LLaVA-1.5's next to last is its
/// last one.
Status read_feature_layer(const GgufFile& file, VisionConfig* c) {
  constexpr const char* kKey = "clip.vision.feature_layer";
  const GgufEntry* layers = nullptr;
  OCELLUS_TRY(file.read_array(kKey, GgufType::kI32, &layers));
  if (layers == nullptr) return {};
  if (layers->count != 1)
    return OCELLUS_FAIL(Code::kUnsupported, "%s names %llu layers, but this build reads the rows of one", kKey,
                        static_cast<unsigned long long>(layers->count));
  int32_t layer = 0;
  std::memcpy(&layer, layers->payload, sizeof layer);
  if (layer < 1 || layer > c->layer_count)
    return OCELLUS_FAIL(Code::kBadFile, "%s is %d, but must be 1 to %d, as clip.vision.block_count", kKey, layer,
                        c->layer_count);
  c->layer_count = layer;
  return {};
}

/// The projector's widths are those of its tensors: clip.vision.projection_dim is what CLIP itself projects to.
Status read_rows(const GgufFile& file, const char* name, int32_t* out) {
  const GgufTensor* tensor = file.find_tensor(name);
  if (tensor == nullptr) return OCELLUS_FAIL(Code::kBadFile, "tensor '%s' is missing", name);
  if (tensor->rows() > kMaxWidth)
    return OCELLUS_FAIL(Code::kUnsupported, "tensor '%s' has %lld rows, more than this build runs", name,
                        static_cast<long long>(tensor->rows()));
  *out = static_cast<int32_t>(tensor->rows());
  return {};
}

Status read_llava(const GgufFile& file, VisionConfig* c) {
  std::string_view merge;
  OCELLUS_TRY(file.read_string("clip.vision.mm_patch_merge_type", &merge));
  if (!merge.empty() && merge != "flat")
    return OCELLUS_FAIL(Code::kUnsupported,
                        "clip.vision.mm_patch_merge_type '%.*s' is not supported: this build runs LLaVA-1.5, which "
                        "sees a picture in one view",
                        shown_bytes(merge), merge.data());
  OCELLUS_TRY(read_feature_layer(file, c));
  OCELLUS_TRY(read_rows(file, "mm.0.weight", &c->projector_width));
  return read_rows(file, "mm.2.weight", &c->output_width);
}

Status check_geometry(const VisionConfig& c) {
  if (c.width % c.heads != 0 || c.head_dim() % 8 != 0 || c.head_dim() > 256)
    return OCELLUS_FAIL(
        Code::kUnsupported,
        "clip.vision.embedding_length %d over %d heads gives no head size that is a multiple of 8 up to 256", c.width,
        c.heads);
  if (c.grid() < 1)
    return OCELLUS_FAIL(Code::kBadFile, "clip.vision.patch_size %d is larger than the image", c.patch_size);
  if (c.grid() % c.scale_factor != 0)
    return OCELLUS_FAIL(Code::kBadFile,
                        "clip.vision.projector.scale_factor %d does not divide the %d patches of a side",
                        c.scale_factor, c.grid());
  if (c.patch_count() > 16384)
    return OCELLUS_FAIL(Code::kUnsupported, "%d patches per view are more than this build runs", c.patch_count());
  if (!(c.epsilon >= 0)) return OCELLUS_FAIL(Code::kBadFile, "clip.vision.attention.layer_norm_epsilon is negative");
  for (float deviation : c.image_std)
    if (!(deviation > 0))
      return OCELLUS_FAIL(Code::kBadFile, "clip.vision.image_std holds a value that is not positive");
  return {};
}

/// Old files call the first MLP matrix ffn_down and the second ffn_up; the shape tells.
bool mlp_names_are_swapped(const LayerBinder& layer, const VisionConfig& c) {
  const GgufTensor* down = layer.find("ffn_down");
  return down != nullptr && c.width != c.mlp_width && down->cols() == c.width;
}

Status bind_layer(const LayerBinder& layer, const VisionConfig& c, VisionLayer* out) {
  OCELLUS_TRY(layer.norm("ln1", c.width, &out->attention_norm_weight, &out->attention_norm_bias));
  OCELLUS_TRY(layer.linear("attn_q", c.width, c.width, &out->query));
  OCELLUS_TRY(layer.linear("attn_k", c.width, c.width, &out->key));
  OCELLUS_TRY(layer.linear("attn_v", c.width, c.width, &out->value));
  OCELLUS_TRY(layer.linear("attn_out", c.width, c.width, &out->attention_output));
  OCELLUS_TRY(layer.norm("ln2", c.width, &out->mlp_norm_weight, &out->mlp_norm_bias));
  const bool swapped = mlp_names_are_swapped(layer, c);
  OCELLUS_TRY(layer.linear(swapped ? "ffn_down" : "ffn_up", c.mlp_width, c.width, &out->mlp_up));
  return layer.linear(swapped ? "ffn_up" : "ffn_down", c.width, c.mlp_width, &out->mlp_down);
}

Status bind_siglip(const TensorBinder& binder, const VisionConfig& c, SiglipParts* out) {
  WeightView positions;
  OCELLUS_TRY(binder.matrix("v.position_embd.weight", c.patch_count(), c.width, &positions));
  if (positions.format != WeightFormat::kF32)
    return OCELLUS_FAIL(Code::kUnsupported, "tensor 'v.position_embd.weight' must be F32");
  out->positions = reinterpret_cast<const float*>(positions.data);
  OCELLUS_TRY(binder.vector("v.post_ln.weight", c.width, &out->final_norm_weight));
  return binder.vector("v.post_ln.bias", c.width, &out->final_norm_bias);
}

Status bind_clip(const TensorBinder& binder, const VisionConfig& c, ClipParts* out) {
  OCELLUS_TRY(binder.vector("v.class_embd", c.width, &out->class_row));
  OCELLUS_TRY(binder.matrix("v.position_embd.weight", c.rows_per_view(), c.width, &out->positions));
  OCELLUS_TRY(binder.vector("v.pre_ln.weight", c.width, &out->first_norm_weight));
  return binder.vector("v.pre_ln.bias", c.width, &out->first_norm_bias);
}

Status bind_projector(const TensorBinder& binder, const VisionConfig& c, VisionModel* out) {
  switch (c.projector) {
    case ProjectorKind::kIdefics3:
      return binder.matrix("mm.model.fc.weight", c.output_width, c.joined_width(), &out->projection.weight);
    case ProjectorKind::kMlp:
      OCELLUS_TRY(binder.matrix("mm.0.weight", c.projector_width, c.width, &out->projection.weight));
      OCELLUS_TRY(binder.optional_vector("mm.0.bias", c.projector_width, &out->projection.bias));
      OCELLUS_TRY(binder.matrix("mm.2.weight", c.output_width, c.projector_width, &out->second_projection.weight));
      return binder.optional_vector("mm.2.bias", c.output_width, &out->second_projection.bias);
  }
  return OCELLUS_FAIL(Code::kInternal, "no projector of this kind");
}

}  // namespace

const char* projector_name(ProjectorKind kind) {
  switch (kind) {
    case ProjectorKind::kIdefics3: return "idefics3";
    case ProjectorKind::kMlp: return "mlp";
  }
  return "unknown";
}

Status read_vision_config(const GgufFile& file, VisionConfig* out) {
  VisionConfig c;
  OCELLUS_TRY(read_projector(file, &c));
  OCELLUS_TRY(read_activation(file, &c));
  OCELLUS_TRY(read_size(file, "clip.vision.image_size", kMaxImageSize, &c.image_size));
  OCELLUS_TRY(read_size(file, "clip.vision.patch_size", kMaxImageSize, &c.patch_size));
  OCELLUS_TRY(read_size(file, "clip.vision.embedding_length", kMaxWidth, &c.width));
  OCELLUS_TRY(read_size(file, "clip.vision.feed_forward_length", kMaxWidth * 4, &c.mlp_width));
  OCELLUS_TRY(read_size(file, "clip.vision.block_count", kMaxLayers, &c.layer_count));
  OCELLUS_TRY(read_size(file, "clip.vision.attention.head_count", 1024, &c.heads));
  OCELLUS_TRY(file.require_float("clip.vision.attention.layer_norm_epsilon", &c.epsilon));
  OCELLUS_TRY(file.require_floats("clip.vision.image_mean", 3, c.image_mean));
  OCELLUS_TRY(file.require_floats("clip.vision.image_std", 3, c.image_std));
  switch (c.projector) {
    case ProjectorKind::kIdefics3: OCELLUS_TRY(read_idefics3(file, &c)); break;
    case ProjectorKind::kMlp: OCELLUS_TRY(read_llava(file, &c)); break;
  }
  OCELLUS_TRY(check_geometry(c));
  *out = c;
  return {};
}

Status bind_vision_model(const GgufFile& file, const VisionConfig& config, const uint8_t* base, VisionModel* out) {
  const TensorBinder binder(file, base);
  const VisionConfig& c = config;
  out->config = c;
  OCELLUS_TRY(binder.matrix("v.patch_embd.weight", c.width, c.patch_values(), &out->patch_embedding.weight));
  OCELLUS_TRY(binder.optional_vector("v.patch_embd.bias", c.width, &out->patch_embedding.bias));
  switch (c.tower) {
    case TowerKind::kSiglip: OCELLUS_TRY(bind_siglip(binder, c, &out->siglip)); break;
    case TowerKind::kClip: OCELLUS_TRY(bind_clip(binder, c, &out->clip)); break;
  }
  OCELLUS_TRY(out->layers.resize(c.layer_count));
  for (int i = 0; i < c.layer_count; ++i) OCELLUS_TRY(bind_layer({binder, "v.blk", i}, c, &out->layers[i]));
  return bind_projector(binder, c, out);
}

}  // namespace ocellus

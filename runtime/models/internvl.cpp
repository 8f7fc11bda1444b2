// InternVL 2.5, 3 and 3.5: an InternViT tower with a class row and scaled branches, pixel shuffle, and a two-layer
// projector after a norm. A picture is stretched to the grid of tiles nearest to its aspect; an overview follows.
#include <algorithm>

#include "mm/tower/tower_pass.h"
#include "runtime/models/family.h"
#include "runtime/models/tile_grids.h"

namespace ocellus {

extern const Family kInternVlFamily;  // referenced by its shapes

namespace {

constexpr int32_t kPublishedTiles = 12;

int32_t most_tiles(const PreprocessConfig& config) {
  return config.max_tiles > 0 ? std::min(config.max_tiles, kMaxTilesPerSide) : kPublishedTiles;
}

TileGrids grids_of(const PreprocessConfig& config) {
  const int32_t most = most_tiles(config);
  return {.least = std::min(config.min_tiles, most), .most = most, .side = config.image_size};
}

void plan_internvl(const PreprocessConfig& config, ViewPlan* plan) {
  const int32_t side = config.image_size;
  const Size grid = grids_of(config).nearest(plan->source);
  plan->overview = Canvas::stretched({side, side}, Filter::kBicubic);
  if (grid == Size{1, 1}) return;
  plan->set_tiles(Canvas::stretched({grid.width * side, grid.height * side}, Filter::kBicubic), side);
}

ViewBounds internvl_bounds(const PreprocessConfig& config, const ImageLimits& limits) {
  const int64_t side = config.image_size;
  ViewBounds bounds;
  bounds.longest_side = config.image_size;
  bounds.stage_pixels = side * limits.max_side;  // the overview's
  bounds.resize_bytes = resize_bound_bytes(longest_side(limits), side, side);
  grids_of(config).add_to(limits, &bounds);
  bounds.rows = (bounds.tiles + int64_t{1}) * config.view_rows;
  return bounds;
}

constexpr ViewRules kViews = {.name = "internvl",
                              .marks = {.before = "<img>", .after = "</img>"},
                              .plan = plan_internvl,
                              .drop_tiles = [](PreprocessConfig* config) { config->max_tiles = 1; },
                              .bounds = internvl_bounds};

Status bind_scales(const LayerBinder& layer, const VisionConfig& c, VisionLayer* w) {
  OCELLUS_TRY(layer.norm("ls1", c.width, &w->attention_scale));
  return layer.norm("ls2", c.width, &w->mlp_scale);
}

Status bind_300m_layer(const LayerBinder& layer, const VisionConfig& c, VisionLayer* w) {
  OCELLUS_TRY(bind_plain_layer(layer, c, w));
  return bind_scales(layer, c, w);
}

/// It has RMS norms, also of queries and keys.
Status bind_6b_layer(const LayerBinder& layer, const VisionConfig& c, VisionLayer* w) {
  OCELLUS_TRY(bind_rms_norms(layer, c, w));
  OCELLUS_TRY(bind_attention(layer, c, w));
  OCELLUS_TRY(layer.norm("attn_q_norm", c.width, &w->query_norm));
  OCELLUS_TRY(layer.norm("attn_k_norm", c.width, &w->key_norm));
  OCELLUS_TRY(bind_mlp(layer, c, w));
  return bind_scales(layer, c, w);
}

/// InternViT: branches are scaled by channel. 2 x 2 patches side by side are a row.
template <class Prepare>
void encode_intern_vit(TowerPass& t, Prepare prepare) {
  const VisionModel& m = t.model();
  t.embed_patches();
  t.place_class_rows();
  while (const VisionLayer* w = t.next_layer()) {
    t.attend(
        *w, [&](const HeadRows& heads) { prepare(*w, heads); },
        [&](HiddenRows rows) { rows.add_scaled(w->attention_output, w->attention_scale); });
    t.run_mlp([&](HiddenRows rows) {
      rows.map(w->mlp_norm, w->mlp_up, m.config.activation);
      rows.add_scaled(w->mlp_down, w->mlp_scale);
    });
  }
  t.project_normed(shuffle_pixels, [&](JoinedRows rows) {
    constexpr float kEpsilon = 1e-5f;  // PyTorch's default
    rows.normalise(m.projector.joined_norm, kEpsilon);
    rows.map(m.projector.first, m.config.projector_width, Activation::kGeluErf);
    rows.write(m.projector.second);
  });
}

void encode_300m(TowerPass& t) {
  encode_intern_vit(t, [](const VisionLayer&, const HeadRows&) {});
}

void encode_6b(TowerPass& t) {
  encode_intern_vit(t, [](const VisionLayer& w, const HeadRows& heads) { heads.normalise(w.query_norm, w.key_norm); });
}

constexpr VisionTower kTower300m = {.bind_layer = bind_300m_layer, .encode = encode_300m},
                      kTower6b = {.bind_layer = bind_6b_layer, .encode = encode_6b};

/// The files do not say which of the two towers they hold.
Status read_internvl(const GgufFile& file, VisionConfig* c) {
  int64_t scale = 2, least = 1, most = 0;
  OCELLUS_TRY(file.read_int("clip.vision.projector.scale_factor", 1, 64, &scale));
  OCELLUS_TRY(file.read_int("clip.vision.preproc_min_tiles", 1, kMaxTilesPerSide, &least));
  OCELLUS_TRY(file.read_int("clip.vision.preproc_max_tiles", 1, kMaxTilesPerSide, &most));
  c->scale_factor = static_cast<int32_t>(scale);
  c->min_tiles = static_cast<int32_t>(least);
  c->max_tiles = static_cast<int32_t>(most);
  c->activation = c->activation == Activation::kGeluTanh ? Activation::kGeluErf : c->activation;
  c->class_rows = 1;
  if (file.find_tensor("v.blk.0.attn_q_norm.weight") != nullptr) c->tower = &kTower6b;
  OCELLUS_TRY(read_vision_rows(file, "mm.model.mlp.1.weight", &c->projector_width));
  return read_vision_rows(file, "mm.model.mlp.3.weight", &c->output_width);
}

Status bind_internvl(const TensorBinder& binder, VisionModel* m) {
  const VisionConfig& c = m->config;
  OCELLUS_TRY(binder.vector("mm.model.mlp.0.weight", c.joined_width(), &m->projector.joined_norm.weight));
  OCELLUS_TRY(binder.vector("mm.model.mlp.0.bias", c.joined_width(), &m->projector.joined_norm.bias));
  OCELLUS_TRY(binder.matrix("mm.model.mlp.1.weight", c.projector_width, c.joined_width(), &m->projector.first.weight));
  OCELLUS_TRY(binder.optional_vector("mm.model.mlp.1.bias", c.projector_width, &m->projector.first.bias));
  OCELLUS_TRY(binder.matrix("mm.model.mlp.3.weight", c.output_width, c.projector_width, &m->projector.second.weight));
  return binder.optional_vector("mm.model.mlp.3.bias", c.output_width, &m->projector.second.bias);
}

void describe_internvl(const VisionConfig& c, GgufHeaderWriter* file, ShapeTensors* tensors) {
  file->add_u32("clip.vision.projector.scale_factor", c.scale_factor);
  file->add_tensor("v.patch_embd.bias", WeightFormat::kF32, {c.width});
  tensors->norm("", "mm.model.mlp.0", c.joined_width(), true);
  tensors->matrix("", "mm.model.mlp.1", c.projector_width, c.joined_width(), true);
  tensors->matrix("", "mm.model.mlp.3", c.output_width, c.projector_width, true);
}

void describe_internvl_layer(const VisionConfig& c, std::string_view at, ShapeTensors* tensors) {
  const bool is_6b = c.tower == &kTower6b;
  tensors->norm(at, "ln1", c.width, !is_6b);
  for (const char* part : {"attn_q", "attn_k", "attn_v"}) tensors->matrix(at, part, c.width, c.width, !is_6b);
  if (is_6b)
    for (const char* part : {"attn_q_norm", "attn_k_norm"}) tensors->norm(at, part, c.width);
  tensors->matrix(at, "attn_out", c.width, c.width, true);
  tensors->norm(at, "ln2", c.width, !is_6b);
  tensors->matrix(at, "ffn_up", c.mlp_width, c.width, true);
  tensors->matrix(at, "ffn_down", c.width, c.mlp_width, true);
  for (const char* part : {"ls1", "ls2"}) tensors->norm(at, part, c.width);
}

constexpr std::string_view kTokens[] = {"<img>", "</img>", "<IMG_CONTEXT>"};

constexpr float kMean[3] = {0.485f, 0.456f, 0.406f}, kDeviation[3] = {0.229f, 0.224f, 0.225f};

// OpenGVLab/InternViT-300M-448px-V2_5, with InternVL's projector.
constexpr VisionConfig intern_vit_300m(int32_t text_width) {
  return {.family = &kInternVlFamily.vision,
          .activation = Activation::kGeluErf,
          .image_size = 448,
          .patch_size = 14,
          .width = 1024,
          .mlp_width = 4096,
          .layer_count = 24,
          .heads = 16,
          .class_rows = 1,
          .scale_factor = 2,
          .projector_width = text_width,
          .output_width = text_width,
          .image_mean = {kMean[0], kMean[1], kMean[2]},
          .image_std = {kDeviation[0], kDeviation[1], kDeviation[2]}};
}

// OpenGVLab/InternViT-6B-448px-V2_5.
constexpr VisionConfig intern_vit_6b(int32_t text_width) {
  VisionConfig config = intern_vit_300m(text_width);
  config.width = 3200;
  config.mlp_width = 12800;
  config.layer_count = 45;
  config.heads = 25;
  config.tower = &kTower6b;
  return config;
}

// Values from config.json of the published model. The dynamic rope scaling of InternLM2.5 starts beyond the
// context length given here, so it is omitted.
constexpr ModelShape kShapes[] = {
    // llm_config is internlm/internlm2_5-7b-chat with nine more tokens
    {.name = "InternVL2.5-8B",
     .published = "OpenGVLab/InternVL2_5-8B",
     .text = {.architecture = find_text_architecture("internlm2"),
              .layer_count = 32,
              .width = 4096,
              .query_heads = 32,
              .kv_heads = 8,
              .head_dim = 128,
              .mlp_width = 14336,
              .vocabulary = 92553,
              .context_length = 32768,
              .rope = {.base = 1000000.0f}},
     .vision = intern_vit_300m(4096)},
    // llm_config is internlm/internlm2_5-20b-chat with nine more
    {.name = "InternVL2.5-26B",
     .published = "OpenGVLab/InternVL2_5-26B",
     .text = {.architecture = find_text_architecture("internlm2"),
              .layer_count = 48,
              .width = 6144,
              .query_heads = 48,
              .kv_heads = 8,
              .head_dim = 128,
              .mlp_width = 16384,
              .vocabulary = 92553,
              .context_length = 32768,
              .rope = {.base = 50000000.0f}},
     .vision = intern_vit_6b(6144)},
    // llm_config is Qwen/Qwen2.5-1.5B with nine more tokens and an output matrix of its own
    {.name = "InternVL3-2B",
     .published = "OpenGVLab/InternVL3-2B",
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
              .rope = {.base = 1000000.0f}},
     .vision = intern_vit_300m(1536)},
    // llm_config is Qwen/Qwen3-1.7B with an output matrix of its own
    {.name = "InternVL3.5-2B",
     .published = "OpenGVLab/InternVL3_5-2B",
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
              .rope = {.base = 1000000.0f}},
     .vision = intern_vit_300m(2048)},
};

}  // namespace

const Family kInternVlFamily = {.name = "InternVL",
                                .vision = {.projector = "internvl",
                                           .tower = &kTower300m,
                                           .read = read_internvl,
                                           .bind = bind_internvl,
                                           .views = &kViews,
                                           .output_width_from = "the height of tensor 'mm.model.mlp.3.weight'"},
                                .describe = describe_internvl,
                                .describe_layer = describe_internvl_layer,
                                .picture_tokens = kTokens,
                                .shapes = kShapes};

}  // namespace ocellus

// Gemma 3 (4B and 12B): a SigLIP tower, whose patches are averaged, normalised and mapped to 256 rows that see each
// other. A picture is stretched to one square view; transformers' pan and scan, which is off there, adds none.
#include <algorithm>

#include "mm/tower/tower_pass.h"
#include "runtime/models/family.h"

namespace ocellus {

extern const Family kGemma3Family;  // referenced by its shapes

namespace {

constexpr const char* kMap = "mm.input_projection.weight";
constexpr const char* kScaleKey = "clip.vision.projector.scale_factor";
constexpr int32_t kUsualScale = 4;  // not in files that have it

void plan_gemma3(const PreprocessConfig& config, ViewPlan* plan) {
  plan->overview = Canvas::stretched({config.image_size, config.image_size}, Filter::kBilinear);
}

ViewBounds gemma3_bounds(const PreprocessConfig& config, const ImageLimits& limits) {
  const int64_t side = config.image_size;
  ViewBounds bounds;
  bounds.rows = config.view_rows;
  bounds.resize_bytes = resize_bound_bytes(longest_side(limits), side, side);
  bounds.stage_pixels = side * limits.max_side;
  bounds.longest_side = config.image_size;
  return bounds;
}

constexpr ViewRules kViews = {.name = "gemma3",
                              .marks = {.before = "<start_of_image>", .after = "<end_of_image>", .line_breaks = 2},
                              .plan = plan_gemma3,
                              .bounds = gemma3_bounds};

Status read_gemma3(const GgufFile& file, VisionConfig* c) {
  int64_t scale = kUsualScale;
  OCELLUS_TRY(read_vision_size(file, "clip.vision.projection_dim", kMaxVisionWidth, &c->output_width));
  OCELLUS_TRY(file.read_int(kScaleKey, 1, 64, &scale));
  c->scale_factor = static_cast<int32_t>(scale);
  c->averages_patches = true;
  return {};
}

/// Files hold the map by columns.
Status bind_gemma3(const TensorBinder& binder, VisionModel* m) {
  const VisionConfig& c = m->config;
  WeightView& map = m->projector.first.weight;
  OCELLUS_TRY(binder.vector("v.post_ln.weight", c.width, &m->final_norm.weight));
  OCELLUS_TRY(binder.vector("v.post_ln.bias", c.width, &m->final_norm.bias));
  OCELLUS_TRY(binder.vector("mm.soft_emb_norm.weight", c.width, &m->projector.joined_norm.weight));
  OCELLUS_TRY(binder.matrix(kMap, c.width, c.output_width, &map));
  if (format_info(map.format).block_elements > 1)
    return OCELLUS_FAIL(Code::kUnsupported, "tensor '%s' must be F16, BF16 or F32, not %s", kMap,
                        format_info(map.format).name);
  std::swap(map.rows, map.cols);
  return {};
}

/// SigLIP; the mean of 4 x 4 patches is normalised and mapped.
void encode_gemma3(TowerPass& t) {
  const VisionModel& m = t.model();
  t.embed_patches();
  t.add_position_rows();
  while (const VisionLayer* w = t.next_layer()) {
    t.attend(*w, [&](HiddenRows rows) { rows.add(w->attention_output); });
    t.run_mlp([&](HiddenRows rows) {
      rows.map(w->mlp_norm, w->mlp_up, m.config.activation);
      rows.add(w->mlp_down);
    });
  }
  t.normalise(m.final_norm);
  t.project_normed(average_patches, [&](JoinedRows rows) {
    rows.normalise(m.projector.joined_norm, m.config.epsilon);
    rows.write(m.projector.first);
  });
}

constexpr VisionTower kTower = {.bind_layer = bind_plain_layer, .encode = encode_gemma3};

void describe_gemma3(const VisionConfig& c, GgufHeaderWriter* file, ShapeTensors* tensors) {
  if (c.scale_factor != kUsualScale) file->add_u32(kScaleKey, c.scale_factor);
  file->add_tensor("v.patch_embd.bias", WeightFormat::kF32, {c.width});
  tensors->norm("", "v.post_ln", c.width, true);
  tensors->norm("", "mm.soft_emb_norm", c.width);
  file->add_tensor(kMap, WeightFormat::kF16, {c.output_width, c.width});
}

// google/siglip-so400m-patch14-384, at another size.
constexpr VisionConfig siglip_so400m(int32_t text_width) {
  return {.family = &kGemma3Family.vision,
          .image_size = 896,
          .patch_size = 14,
          .width = 1152,
          .mlp_width = 4304,
          .layer_count = 27,
          .heads = 16,
          .scale_factor = kUsualScale,
          .averages_patches = true,
          .output_width = text_width,
          .image_mean = {0.5f, 0.5f, 0.5f},
          .image_std = {0.5f, 0.5f, 0.5f}};
}

// Values from config.json of the published model.
constexpr ModelShape kShapes[] = {
    {.name = "Gemma3-4B",
     .published = "google/gemma-3-4b-it",
     .text = {.architecture = find_text_architecture("gemma3"),
              .layer_count = 34,
              .width = 2560,
              .query_heads = 8,
              .kv_heads = 4,
              .head_dim = 256,
              .mlp_width = 10240,
              .vocabulary = 262144,
              .context_length = 131072,
              .epsilon = 1e-6f,
              .rope = {.base = 1000000.0f, .position_scale = 1.0f / 8},
              .local = {.window = 1024, .period = 6, .head_dim = 256}},
     .tied = true,
     .vision = siglip_so400m(2560)},
    {.name = "Gemma3-12B",
     .published = "google/gemma-3-12b-it",
     .text = {.architecture = find_text_architecture("gemma3"),
              .layer_count = 48,
              .width = 3840,
              .query_heads = 16,
              .kv_heads = 8,
              .head_dim = 256,
              .mlp_width = 15360,
              .vocabulary = 262144,
              .context_length = 131072,
              .epsilon = 1e-6f,
              .rope = {.base = 1000000.0f, .position_scale = 1.0f / 8},
              .local = {.window = 1024, .period = 6, .head_dim = 256}},
     .tied = true,
     .vision = siglip_so400m(3840)},
};

constexpr std::string_view kTokens[] = {"<start_of_image>", "<end_of_image>"};

}  // namespace

const Family kGemma3Family = {.name = "Gemma3",
                              .vision = {.projector = "gemma3",
                                         .tower = &kTower,
                                         .read = read_gemma3,
                                         .bind = bind_gemma3,
                                         .views = &kViews,
                                         .turned_matrix = kMap,
                                         .output_width_from = "clip.vision.projection_dim"},
                              .describe = describe_gemma3,
                              .describe_layer = describe_plain_layer,
                              .picture_tokens = kTokens,
                              .shapes = kShapes};

}  // namespace ocellus

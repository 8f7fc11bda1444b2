// PaddleOCR-VL: how it sees pictures, its tower, which takes pictures at any size and has learned positions beside
// rotations, and its published shapes.
#include <cmath>

#include "mm/tower/tower_pass.h"
#include "runtime/models/qwen_tower.h"
#include "runtime/models/qwen_views.h"

namespace ocellus {

extern const Family kPaddleOcrFamily;  // referenced by its shapes

namespace {

constexpr float kProjectorEpsilon = 1e-5f;  // the projector's norm has its own in the published code

/// A picture is enlarged if it is less than a row high, and then if it is less than a row wide. Products and quotients
/// stand in the order of the published code, halves become even numbers.
void plan_paddle(const PreprocessConfig& config, ViewPlan* plan) {
  const int32_t side = config.row_side;
  const auto scaled = [&](int32_t other, int32_t shorter) {
    return static_cast<int32_t>(std::nearbyint(static_cast<double>(other) * side / shorter));
  };
  Size size = plan->source;
  if (size.height < side) size = {scaled(size.width, size.height), side};
  if (size.width < side) size = {side, scaled(size.height, size.width)};
  plan_qwen_size(config, size, plan);
}

constexpr ViewRules kViews = {.name = "paddleocr",
                              .marks = {.before = "<|IMAGE_START|>", .after = "<|IMAGE_END|>"},
                              .has_grid_positions = true,
                              .plan = plan_paddle,
                              .bounds = bound_enlarged_views};

/// Rows are normalised twice: by the tower, and by the projector before it joins 2 x 2 of them.
void encode_paddle(TowerPass& t) {
  const VisionModel& m = t.model();
  t.embed_patches();
  t.add_resized_positions(/*averages=*/false, /*by_edges=*/true);
  t.find_angles(RopePairing::kHalves, 10000.0f);
  while (const VisionLayer* w = t.next_layer()) {
    t.attend(
        *w, [](const HeadRows& heads) { heads.rotate(); }, [&](HiddenRows rows) { rows.add(w->attention_output); });
    t.run_mlp([&](HiddenRows rows) {
      rows.map(w->mlp_norm, w->mlp_up, t.config().activation);
      rows.add(w->mlp_down);
    });
  }
  t.normalise(m.final_norm);
  t.normalise(m.projector.row_norm, kProjectorEpsilon);
  t.project(shuffle_pixels, [&](JoinedRows rows) {
    rows.map(m.projector.first, m.config.projector_width, Activation::kGeluErf);
    rows.write(m.projector.second);
  });
}

constexpr VisionTower kTower = {.bind_layer = bind_plain_layer, .encode = encode_paddle};

/// The side of pictures that files name is the root of the most pixels, and no multiple of a row's.
Status read_paddle(const GgufFile& file, VisionConfig* c) {
  c->scale_factor = 2;
  c->any_size = true;
  c->min_pixels = 384 * 384;
  c->max_pixels = 1536 * 1536;
  if (c->image_size < c->row_side())
    return OCELLUS_FAIL(Code::kBadFile, "clip.vision.image_size %d is less than the %d pixels of a row", c->image_size,
                        c->row_side());
  c->image_size -= c->image_size % c->row_side();
  OCELLUS_TRY(read_position_side(file, c));
  if (c->position_side == 0) return OCELLUS_FAIL(Code::kBadFile, "tensor 'v.position_embd.weight' is missing");
  OCELLUS_TRY(read_pixel_limits(file, c));
  c->usual_rows = static_cast<int32_t>(c->max_pixels / (int64_t{c->row_side()} * c->row_side()));
  OCELLUS_TRY(read_vision_rows(file, "mm.1.weight", &c->projector_width));
  return read_vision_rows(file, "mm.2.weight", &c->output_width);
}

Status bind_paddle(const TensorBinder& binder, VisionModel* m) {
  const VisionConfig& c = m->config;
  Projector& p = m->projector;
  OCELLUS_TRY(binder.vector("v.post_ln.weight", c.width, &m->final_norm.weight));
  OCELLUS_TRY(binder.vector("v.post_ln.bias", c.width, &m->final_norm.bias));
  OCELLUS_TRY(binder.vector("mm.input_norm.weight", c.width, &p.row_norm.weight));
  OCELLUS_TRY(binder.vector("mm.input_norm.bias", c.width, &p.row_norm.bias));
  OCELLUS_TRY(binder.matrix("mm.1.weight", c.projector_width, c.joined_width(), &p.first.weight));
  OCELLUS_TRY(binder.vector("mm.1.bias", c.projector_width, &p.first.bias));
  OCELLUS_TRY(binder.matrix("mm.2.weight", c.output_width, c.projector_width, &p.second.weight));
  return binder.vector("mm.2.bias", c.output_width, &p.second.bias);
}

void describe_paddle(const VisionConfig& c, GgufHeaderWriter* file, ShapeTensors* tensors) {
  file->add_u32("clip.vision.image_min_pixels", c.min_pixels);
  file->add_u32("clip.vision.image_max_pixels", c.max_pixels);
  file->add_tensor("v.patch_embd.bias", WeightFormat::kF32, {c.width});
  tensors->norm("", "v.post_ln", c.width, true);
  tensors->norm("", "mm.input_norm", c.width, true);
  tensors->matrix("", "mm.1", c.projector_width, c.joined_width(), true);
  tensors->matrix("", "mm.2", c.output_width, c.projector_width, true);
}

constexpr std::string_view kTokens[] = {"<|IMAGE_START|>", "<|IMAGE_END|>", "<|IMAGE_PLACEHOLDER|>"};

constexpr TextConfig kText = {.architecture = find_text_architecture("paddleocr"),
                              .layer_count = 18,
                              .width = 1024,
                              .query_heads = 16,
                              .kv_heads = 2,
                              .head_dim = 128,
                              .mlp_width = 3072,
                              .vocabulary = 103424,
                              .context_length = 131072,
                              .rope = {.base = 500000.0f, .sections = {.counts = {16, 24, 24}}}};

constexpr VisionConfig paddle_tower(int32_t image_size, int64_t min_pixels, int64_t max_pixels) {
  return {.family = &kPaddleOcrFamily.vision,
          .image_size = image_size,
          .patch_size = 14,
          .width = 1152,
          .mlp_width = 4304,
          .layer_count = 27,
          .heads = 16,
          .any_size = true,
          .position_side = 27,
          .min_pixels = min_pixels,
          .max_pixels = max_pixels,
          .usual_rows = static_cast<int32_t>(max_pixels / (28 * 28)),
          .scale_factor = 2,
          .projector_width = 4 * 1152,
          .output_width = 1024,
          .image_mean = {0.5f, 0.5f, 0.5f},
          .image_std = {0.5f, 0.5f, 0.5f}};
}

// Values from config.json and preprocessor_config.json of the published models.
constexpr ModelShape kShapes[] = {
    {.name = "PaddleOCR-VL-1.0",
     .published = "PaddlePaddle/PaddleOCR-VL",
     .text = kText,
     .vision = paddle_tower(1680, 147384, 2822400)},
    {.name = "PaddleOCR-VL-1.5",
     .published = "PaddlePaddle/PaddleOCR-VL-1.5",
     .text = kText,
     .vision = paddle_tower(980, 112896, 1003520)},
};

}  // namespace

const Family kPaddleOcrFamily = {.name = "PaddleOCR-VL",
                                 .vision = {.projector = "paddleocr",
                                            .tower = &kTower,
                                            .read = read_paddle,
                                            .bind = bind_paddle,
                                            .views = &kViews,
                                            .output_width_from = "the height of tensor 'mm.2.weight'"},
                                 .describe = describe_paddle,
                                 .describe_layer = describe_plain_layer,
                                 .picture_tokens = kTokens,
                                 .shapes = kShapes};

}  // namespace ocellus

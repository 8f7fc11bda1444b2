// Cosmos3-Edge (its reasoner): how it sees pictures and clips, its SigLIP2 tower, which takes pictures at any size, and
// its published shape.
#include <algorithm>
#include <cstdio>

#include "mm/tower/tower_pass.h"
#include "runtime/models/qwen_tower.h"
#include "runtime/models/qwen_views.h"

namespace ocellus {

extern const Family kCosmos3EdgeFamily;  // referenced by its shape

namespace {

constexpr ViewRules views_by(void (*plan)(const PreprocessConfig&, ViewPlan*)) {
  return {.name = "cosmos3-edge",
          .marks = {.before = "<|vision_start|>", .after = "<|vision_end|>"},
          .has_grid_positions = true,
          .plan = plan,
          .bounds = bound_enlarged_views};
}
constexpr ViewRules kViews = views_by(plan_enlarged_view), kFrameViews = views_by(plan_qwen_frame);

/// The published code divides by the number of frames that a clip has, here it is the number that was planned.
int32_t clip_rows(int32_t frames) { return std::clamp(kMostClipRows / frames, 1, static_cast<int32_t>(kMostQwenRows)); }

void write_before_frame(const ClipTimes& clip, int32_t frame, ClipText* out) {
  std::snprintf(out->text, sizeof out->text, "<%.1f seconds>", clip.seconds[frame]);
}

/// Each frame is a picture with its time before it.
constexpr ClipRules kTimedFrames = {.most_frames = kMostQwenFrames,
                                    .frame_views = &kFrameViews,
                                    .rows = clip_rows,
                                    .sample = sample_evenly,
                                    .write_before = write_before_frame};

/// Rows are normalised twice: by the tower, and by the projector before it joins 2 x 2 of them.
void encode_cosmos3(TowerPass& t) {
  const VisionModel& m = t.model();
  t.embed_patches();
  t.add_resized_positions(/*averages=*/true);
  while (const VisionLayer* w = t.next_layer()) {
    t.attend(*w, [&](HiddenRows rows) { rows.add(w->attention_output); });
    t.run_mlp([&](HiddenRows rows) {
      rows.map(w->mlp_norm, w->mlp_up, Activation::kGeluTanh);
      rows.add(w->mlp_down);
    });
  }
  t.normalise(m.final_norm);
  t.normalise(m.projector.row_norm);
  t.project(shuffle_pixels, [&](JoinedRows rows) {
    rows.map(m.projector.first, m.config.projector_width, Activation::kGeluErf);
    rows.write(m.projector.second);
  });
}

constexpr VisionTower kTower = {.bind_layer = bind_plain_layer, .encode = encode_cosmos3};

Status read_cosmos3(const GgufFile& file, VisionConfig* c) {
  OCELLUS_TRY(read_qwen(file, c));
  c->frame_kernels = 1;
  if (c->position_side > 0) return {};
  return OCELLUS_FAIL(Code::kBadFile, "tensor 'v.position_embd.weight' is missing");
}

Status bind_cosmos3(const TensorBinder& binder, VisionModel* m) {
  OCELLUS_TRY(bind_qwen(binder, m));
  OCELLUS_TRY(binder.vector("mm.input_norm.weight", m->config.width, &m->projector.row_norm.weight));
  return binder.vector("mm.input_norm.bias", m->config.width, &m->projector.row_norm.bias);
}

void describe_cosmos3(const VisionConfig& c, GgufHeaderWriter* file, ShapeTensors* tensors) {
  describe_qwen(c, file, tensors);
  tensors->norm("", "mm.input_norm", c.width, true);
}

constexpr std::string_view kTokens[] = {"<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"};

// Values from config.json and processor_config.json of the published model.
constexpr ModelShape kShapes[] = {
    {.name = "Cosmos3-Edge",
     .published = "nvidia/Cosmos3-Edge",
     .text = {.architecture = find_text_architecture("cosmos3-edge"),
              .layer_count = 28,
              .width = 2048,
              .query_heads = 16,
              .kv_heads = 8,
              .head_dim = 128,
              .mlp_width = 9216,
              .vocabulary = 131072,
              .context_length = 131072,
              .rope = {.base = 1e8f, .sections = {.counts = {24, 20, 20}, .interleaved = true}}},
     .vision = {.family = &kCosmos3EdgeFamily.vision,
                .image_size = 256,
                .patch_size = 16,
                .width = 1152,
                .mlp_width = 4304,
                .layer_count = 27,
                .heads = 16,
                .any_size = true,
                .position_side = 16,
                .min_pixels = 256 * 256,
                .max_pixels = 4096 * 4096,
                .usual_rows = kUsualQwenRows,
                .scale_factor = 2,
                .projector_width = 11520,
                .output_width = 2048,
                .image_mean = {0.5f, 0.5f, 0.5f},
                .image_std = {0.5f, 0.5f, 0.5f}}},
};

}  // namespace

const Family kCosmos3EdgeFamily = {.name = "Cosmos3-Edge",
                                   .vision = {.projector = "cosmos3_edge",
                                              .tower = &kTower,
                                              .read = read_cosmos3,
                                              .bind = bind_cosmos3,
                                              .views = &kViews,
                                              .output_width_from = "the height of tensor 'mm.2.weight'"},
                                   .describe = describe_cosmos3,
                                   .describe_layer = describe_plain_layer,
                                   .picture_tokens = kTokens,
                                   .clips = kTimedFrames,
                                   .places = PlaceUnits::kThousandths,
                                   .shapes = kShapes};

}  // namespace ocellus

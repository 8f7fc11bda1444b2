// Gemma 4 (E2B and E4B): a tower that takes pictures at any size with their aspect, as many rows as a budget allows,
// rotates queries and keys by column and line, and averages 3 x 3 patches to a row of the language model, whose
// positions are numbers. A clip is pictures of fewer rows, with their times. Its audio half is not read, nor are the
// larger models, whose pictures' rows see each other.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "mm/tower/tower_pass.h"
#include "runtime/models/family.h"

namespace ocellus {

extern const Family kGemma4Family;  // referenced by its shapes

namespace {

constexpr const char* kMap = "mm.input_projection.weight";
constexpr const char* kScaleKey = "clip.vision.projector.scale_factor";
constexpr int32_t kUsualScale = 3;                     // not in files that have it
constexpr int32_t kUsualRows = 280, kMostRows = 1120;  // the budgets are 70, 140, 280, 560 and 1120 rows

/// A side in rows, rounded down; the published code computes in double precision, in this order.
int32_t side_rows(double factor, int32_t pixels, int32_t row_side) {
  return static_cast<int32_t>(std::floor(factor * pixels / row_side));
}

/// The largest size with the picture's aspect whose rows are within the budget, its sides rounded down to whole rows;
/// a picture that is too narrow for one is a line of rows.
void plan_gemma4(const PreprocessConfig& config, ViewPlan* plan) {
  const auto [width, height] = plan->source;
  const double side = config.row_side, pixels = static_cast<double>(width) * height;
  const double factor = std::sqrt(config.view_rows * side * side / pixels);
  int32_t lines = side_rows(factor, height, config.row_side), cols = side_rows(factor, width, config.row_side);
  if (lines == 0) cols = std::clamp(width / height, 1, config.view_rows);
  if (cols == 0) lines = std::clamp(height / width, 1, config.view_rows);
  lines = std::max(lines, 1);
  cols = std::max(cols, 1);
  plan->overview = Canvas::stretched({cols * config.row_side, lines * config.row_side}, Filter::kBicubic);
  plan->view_rows = plan->view_positions = lines * cols;
}

/// The longer side is at least the root of the budget, rounded down to rows.
ViewBounds gemma4_bounds(const PreprocessConfig& config, const ImageLimits& limits) {
  ViewBounds bounds;
  bounds.rows = max_row_count(config);
  bound_resizes(config.row_side, config.view_rows, limits, &bounds);
  return bounds;
}

constexpr ViewRules kViews = {.name = "gemma4",
                              .marks = {.before = "<|image>", .after = "<image|>"},
                              .plan = plan_gemma4,
                              .bounds = gemma4_bounds};

constexpr int32_t kFrameRows = 70;  // the budget of a frame of a clip
constexpr int32_t kUsualClipFrames = 32;

/// Evenly spaced frames from the first on, as transformers' video processor takes them; all of a shorter video.
int32_t sample_gemma4(int32_t frame_count, double, int32_t most, int32_t* indices) {
  const int32_t count = std::min({most, kUsualClipFrames, frame_count});
  for (int32_t i = 0; i < count; ++i) indices[i] = evenly_spaced(i, count, frame_count);
  return count;
}

/// "mm:ss " before the first frame, " mm:ss " before the others.
void write_before_frame(const ClipTimes& clip, int32_t frame, ClipText* out) {
  const auto seconds = static_cast<int32_t>(clip.seconds[frame]);
  std::snprintf(out->text, sizeof out->text, "%s%02d:%02d ", frame == 0 ? "" : " ", seconds / 60, seconds % 60);
}

constexpr ClipRules kClips = {.most_frames = kUsualClipFrames,
                              .rows = [](int32_t) { return kFrameRows; },
                              .sample = sample_gemma4,
                              .write_before = write_before_frame};

/// The table holds as many positions for columns as for lines.
Status read_positions(const GgufFile& file, VisionConfig* c) {
  int32_t rows = 0;
  OCELLUS_TRY(read_vision_rows(file, "v.position_embd.weight", &rows));
  c->axis_positions = rows / 2;
  if (rows % 2 == 0 && c->axis_positions >= c->scale_factor) return {};
  return OCELLUS_FAIL(Code::kBadFile,
                      "tensor 'v.position_embd.weight' has %d rows, which are no positions of columns and lines", rows);
}

/// A picture's longer side has a position for each of its patches.
void set_sizes(VisionConfig* c) {
  const int64_t most = std::min(kMostRows, c->axis_positions / c->scale_factor);
  c->image_size = c->row_side() * 16;  // files have a number without meaning
  c->max_pixels = most * c->row_side() * c->row_side();
  c->usual_rows = kUsualRows;
}

/// The tower doubles its pixels and subtracts 1.
void centre_pixels(VisionConfig* c) {
  for (int channel = 0; channel < 3; ++channel) {
    c->image_std[channel] /= 2;
    c->image_mean[channel] += c->image_std[channel];
  }
}

Status read_gemma4(const GgufFile& file, VisionConfig* c) {
  int64_t scale = kUsualScale;
  OCELLUS_TRY(file.read_int(kScaleKey, 1, 16, &scale));
  c->scale_factor = static_cast<int32_t>(scale);
  if (int64_t{c->row_side()} * 16 > kMaxLongestEdge)
    return OCELLUS_FAIL(Code::kUnsupported, "clip.vision.patch_size %d is more than this build runs", c->patch_size);
  OCELLUS_TRY(read_positions(file, c));
  set_sizes(c);
  centre_pixels(c);
  c->activation = Activation::kGeluTanh;  // in no key
  c->any_size = c->averages_patches = true;
  return read_vision_rows(file, kMap, &c->output_width);
}

Status bind_gemma4(const TensorBinder& binder, VisionModel* m) {
  const VisionConfig& c = m->config;
  Projector& p = m->projector;
  OCELLUS_TRY(binder.optional_vector("v.std_bias", c.width, &p.joined_bias));
  OCELLUS_TRY(binder.optional_vector("v.std_scale", c.width, &p.joined_scale));
  if (binder.has("v.std_bias") != binder.has("v.std_scale"))
    return OCELLUS_FAIL(Code::kBadFile, "one of the tensors 'v.std_bias' and 'v.std_scale' is missing");
  return binder.matrix(kMap, c.output_width, c.width, &p.first.weight);
}

Status read_bounds(const LayerBinder& layer, const char* part, BoundedLinear* out) {
  OCELLUS_TRY(layer.optional_scalar(part, "input_min", &out->input.low));
  OCELLUS_TRY(layer.optional_scalar(part, "input_max", &out->input.high));
  OCELLUS_TRY(layer.optional_scalar(part, "output_min", &out->output.low));
  return layer.optional_scalar(part, "output_max", &out->output.high);
}

/// The bounds of maps are small tensors of their own.
Status bind_bounds(const LayerBinder& layer, VisionLayer* w) {
  OCELLUS_TRY(read_bounds(layer, "attn_q", &w->query));
  OCELLUS_TRY(read_bounds(layer, "attn_k", &w->key));
  OCELLUS_TRY(read_bounds(layer, "attn_v", &w->value));
  OCELLUS_TRY(read_bounds(layer, "attn_out", &w->attention_output));
  OCELLUS_TRY(read_bounds(layer, "ffn_gate", &w->mlp_gate));
  OCELLUS_TRY(read_bounds(layer, "ffn_up", &w->mlp_up));
  return read_bounds(layer, "ffn_down", &w->mlp_down);
}

Status bind_gemma4_layer(const LayerBinder& layer, const VisionConfig& c, VisionLayer* w) {
  OCELLUS_TRY(bind_rms_norms(layer, c, w));
  OCELLUS_TRY(bind_attention(layer, c, w));
  OCELLUS_TRY(layer.norm("attn_q_norm", c.head_dim(), &w->query_norm));
  OCELLUS_TRY(layer.norm("attn_k_norm", c.head_dim(), &w->key_norm));
  OCELLUS_TRY(layer.norm("attn_post_norm", c.width, &w->attention_output_norm));
  OCELLUS_TRY(layer.linear("ffn_gate", c.mlp_width, c.width, &w->mlp_gate));
  OCELLUS_TRY(bind_mlp(layer, c, w));
  OCELLUS_TRY(layer.norm("ffn_post_norm", c.width, &w->mlp_output_norm));
  return bind_bounds(layer, w);
}

/// Each half of a head is rotated by itself, the first by the column. Branches have norms at both ends. The mean of
/// 3 x 3 patches is standardised in some models, and normalised without weights.
void encode_gemma4(TowerPass& t) {
  const VisionModel& m = t.model();
  const VisionConfig& c = m.config;
  const Projector& p = m.projector;
  t.embed_patches();
  t.add_axis_positions();
  t.find_angles(RopePairing::kQuarters, 100.0f, true);
  while (const VisionLayer* w = t.next_layer()) {
    t.attend(
        *w,
        [&](const HeadRows& heads) {
          heads.normalise_each(w->query_norm, w->key_norm);
          heads.rotate();
        },
        [&](HiddenRows rows) { rows.add_normalised(w->attention_output, w->attention_output_norm); });
    t.run_mlp([&](HiddenRows rows) {
      rows.map_gated(w->mlp_norm, w->mlp_gate, w->mlp_up, Activation::kGeluTanh);
      rows.add_normalised(w->mlp_down, w->mlp_output_norm);
    });
  }
  t.project_normed(average_patches, [&](JoinedRows rows) {
    const auto width = static_cast<float>(c.width);
    rows.standardise(std::sqrt(width), p.joined_bias, p.joined_scale);
    // Rows that are not standardised are not multiplied by the root of their width: the epsilon is divided by its
    // square.
    rows.normalise({}, p.joined_scale != nullptr ? c.epsilon : c.epsilon / width);
    rows.write(p.first);
  });
}

constexpr VisionTower kTower = {.bind_layer = bind_gemma4_layer, .encode = encode_gemma4};

void describe_gemma4(const VisionConfig& c, GgufHeaderWriter* file, ShapeTensors* tensors) {
  if (c.scale_factor != kUsualScale) file->add_u32(kScaleKey, c.scale_factor);
  tensors->matrix("", "mm.input_projection", c.output_width, c.width);
}

void describe_gemma4_layer(const VisionConfig& c, std::string_view at, ShapeTensors* tensors) {
  tensors->norm(at, "ln1", c.width);
  for (const char* part : {"attn_q", "attn_k", "attn_v"}) tensors->matrix(at, part, c.width, c.width);
  for (const char* part : {"attn_q_norm", "attn_k_norm"}) tensors->norm(at, part, c.head_dim());
  for (const char* part : {"attn_post_norm", "ffn_post_norm"}) tensors->norm(at, part, c.width);
  tensors->matrix(at, "attn_out", c.width, c.width);
  tensors->norm(at, "ln2", c.width);
  for (const char* part : {"ffn_gate", "ffn_up"}) tensors->matrix(at, part, c.mlp_width, c.width);
  tensors->matrix(at, "ffn_down", c.width, c.mlp_width);
}

constexpr std::string_view kTokens[] = {"<|image>", "<image|>"};

constexpr VisionConfig tower(int32_t text_width) {
  return {.family = &kGemma4Family.vision,
          .image_size = 768,
          .patch_size = 16,
          .width = 768,
          .mlp_width = 3072,
          .layer_count = 16,
          .heads = 12,
          .any_size = true,
          .axis_positions = 10240,
          .max_pixels = int64_t{kMostRows} * 48 * 48,
          .usual_rows = kUsualRows,
          .scale_factor = kUsualScale,
          .averages_patches = true,
          .output_width = text_width,
          .image_std = {1, 1, 1}};
}

struct Gemma4Text {
  int32_t layers, period, width, kv_heads, mlp_width;
  SharingLayers sharing;
};

constexpr TextConfig gemma4_text(const Gemma4Text& t) {
  return {.architecture = find_text_architecture("gemma4"),
          .layer_count = t.layers,
          .width = t.width,
          .query_heads = 8,
          .kv_heads = t.kv_heads,
          .head_dim = 512,
          .mlp_width = t.mlp_width,
          .vocabulary = 262144,
          .context_length = 131072,
          .epsilon = 1e-6f,
          .rope = {.base = 1000000.0f},
          .local = {.window = 512, .period = t.period, .head_dim = 256},
          .sharing = t.sharing,
          .layer_input_width = 256,
          .logit_cap = 30.0f};
}

// Values from config.json of the published models. Whether their towers' maps have bounds is in the files alone.
constexpr ModelShape kShapes[] = {
    {.name = "Gemma4-E2B",
     .published = "google/gemma-4-E2B-it",
     .text = gemma4_text({.layers = 35,
                          .period = 5,
                          .width = 1536,
                          .kv_heads = 1,
                          .mlp_width = 6144,
                          .sharing = {.count = 20, .mlp_width = 12288}}),
     .tied = true,
     .vision = tower(1536)},
    {.name = "Gemma4-E4B",
     .published = "google/gemma-4-E4B-it",
     .text = gemma4_text({.layers = 42,
                          .period = 6,
                          .width = 2560,
                          .kv_heads = 2,
                          .mlp_width = 10240,
                          .sharing = {.count = 18, .mlp_width = 10240}}),
     .tied = true,
     .vision = tower(2560)},
};

}  // namespace

const Family kGemma4Family = {.name = "Gemma4",
                              .vision = {.projector = "gemma4v",
                                         .tower = &kTower,
                                         .read = read_gemma4,
                                         .bind = bind_gemma4,
                                         .views = &kViews,
                                         .output_width_from = "the height of tensor 'mm.input_projection.weight'"},
                              .describe = describe_gemma4,
                              .describe_layer = describe_gemma4_layer,
                              .picture_tokens = kTokens,
                              .clips = kClips,
                              .shapes = kShapes};

}  // namespace ocellus

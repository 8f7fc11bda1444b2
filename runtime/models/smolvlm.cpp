// SmolVLM, SmolVLM2 and Idefics3: a SigLIP tower, pixel shuffle and a linear projector; pictures are cut into tiles,
// followed by an overview.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "mm/tower/tower_pass.h"
#include "platform/round_up.h"
#include "runtime/models/family.h"

namespace ocellus {

extern const Family kSmolVlmFamily;  // referenced by its shapes

namespace {

/// Maximum side after a resize in transformers' processor.
constexpr int32_t kMaxSide = 4096;

int32_t resized_side(const PreprocessConfig& config) {
  return std::min(config.longest_edge == 0 ? config.image_size : config.longest_edge, kMaxSide);
}

int32_t tiles_per_side(const PreprocessConfig& config) { return divide_up(resized_side(config), config.image_size); }

/// Scales the longer side to `longest`; the other keeps the ratio, truncated, and made even if requested.
Size scale_to_longest(Size size, int32_t longest, bool make_even) {
  const double ratio = static_cast<double>(size.width) / size.height;
  const bool wide = size.width >= size.height;
  int32_t other = static_cast<int32_t>(wide ? longest / ratio : longest * ratio);
  if (make_even && other % 2 != 0) ++other;
  other = std::max(other, 1);
  return wide ? Size{longest, other} : Size{other, longest};
}

/// Rounds the longer side up to a multiple of the tile; the other follows the ratio and is rounded up as well.
Size round_up_to_tiles(Size size, int32_t tile, int32_t most_tiles) {
  // A side that the ratio makes 0 gets a tile, too.
  const auto round_up = [&](int32_t side) { return std::clamp(divide_up(side, tile), 1, most_tiles) * tile; };
  const double ratio = static_cast<double>(size.width) / size.height;
  if (size.width >= size.height) {
    const int32_t width = round_up(size.width);
    return {width, round_up(static_cast<int32_t>(width / ratio))};
  }
  const int32_t height = round_up(size.height);
  return {round_up(static_cast<int32_t>(height * ratio)), height};
}

/// Returns the size after the first resize: the longest side to longest_edge, and then to kMaxSide.
Size first_step(Size source, int32_t longest) {
  const Size step = scale_to_longest(source, longest, true);
  return std::max(step.width, step.height) > kMaxSide ? scale_to_longest(step, kMaxSide, false) : step;
}

Size tiled_size(const PreprocessConfig& config, Size step) {
  const Size size = round_up_to_tiles(step, config.image_size, tiles_per_side(config));
  return size.width <= config.image_size && size.height <= config.image_size ? Size{} : size;
}

/// Plans as transformers' PIL based processor does. If tiles are limited, the longest edge shrinks a tile at a time.
void plan_smolvlm(const PreprocessConfig& config, ViewPlan* plan) {
  const int32_t side = config.image_size;
  PreprocessConfig bounded = config;
  Size step = first_step(plan->source, config.longest_edge == 0 ? side : config.longest_edge), tiled = {};
  if (config.longest_edge > 0) tiled = tiled_size(config, step);
  while (config.max_tiles > 0 && tile_count(tiled, side) > config.max_tiles) {
    bounded.longest_edge = (tiles_per_side(bounded) - 1) * side;
    step = first_step(plan->source, bounded.longest_edge);
    tiled = tiled_size(bounded, step);
  }
  Canvas tiles{.size = tiled, .resize_count = 2, .resizes = {{step, Filter::kLanczos}, {tiled, Filter::kLanczos}}};
  plan->overview = Canvas::stretched({side, side}, Filter::kLanczos);
  if (tiled == Size{}) {
    tiles.size = tiles.resizes[1].to = plan->overview.size;
    plan->overview = tiles;
    return;
  }
  plan->overview.is_of_tiles = true;
  plan->set_tiles(tiles, side);
}

ViewBounds smolvlm_bounds(const PreprocessConfig& config, const ImageLimits& limits) {
  const int64_t view = config.image_size, per_side = config.longest_edge == 0 ? 1 : tiles_per_side(config);
  const int64_t most = config.max_tiles > 0 ? config.max_tiles : INT32_MAX;
  ViewBounds bounds;
  if (per_side > 1 && most > 1) {
    bounds.tiles = static_cast<int32_t>(std::min(per_side * per_side, most));
    bounds.tile_rows = static_cast<int32_t>(std::min(per_side, most));
  }
  bounds.rows = (bounds.tiles + int64_t{1}) * config.view_rows;
  bounds.tiled_pixels = bounds.tiles * view * view;
  const int64_t tiled = bounds.tiles > 0 ? per_side * view : view;
  const int64_t step = resized_side(config) + int64_t{1};  // made even
  const int64_t least_step = per_side > 1 ? view : step;   // without tiles, or with fewer
  const int64_t together =
      resize_bound_bytes(longest_side(limits), least_step, step) + resize_bound_bytes(step, tiled, tiled);
  bounds.resize_bytes = std::max(together, resize_bound_bytes(tiled, view, view));
  bounds.stages = 2;
  bounds.stage_pixels = std::max({step * step, tiled * tiled, narrowed_pixels(limits, step)});
  bounds.longest_side = static_cast<int32_t>(std::max(step, tiled));
  return bounds;
}

/// `before_only_view`: line breaks are for the overview after tiles. The models that were trained here have them
/// always.
constexpr ViewRules views_named(const char* name, const char* before_only_view) {
  return {.name = name,
          .marks = {.before_tile = "<fake_token_around_image><row_%d_col_%d>",
                    .after_tile_row = "\n",
                    .before_overview = "\n\n<fake_token_around_image><global-img>",
                    .before_only_view = before_only_view,
                    .after = "<fake_token_around_image>"},
          .plan = plan_smolvlm,
          .drop_tiles = [](PreprocessConfig* config) { config->longest_edge = 0; },
          .bounds = smolvlm_bounds};
}
constexpr ViewRules kViews = views_named("idefics3 marks", "<fake_token_around_image><global-img>");
constexpr ViewRules kPlainViews = views_named("idefics3", nullptr);

/// Makes rules for frames of a video, which have no tiles, and no line ends before them.
PreprocessConfig without_tiles(PreprocessConfig config) {
  config.longest_edge = 0;
  return config;
}
void plan_frame(const PreprocessConfig& config, ViewPlan* plan) { plan_smolvlm(without_tiles(config), plan); }
ViewBounds frame_bounds(const PreprocessConfig& config, const ImageLimits& limits) {
  return smolvlm_bounds(without_tiles(config), limits);
}

constexpr ViewRules kFrameViews = {
    .name = "idefics3 frame",
    .marks = {.before_overview = "<fake_token_around_image><global-img>", .after = "<fake_token_around_image>"},
    .plan = plan_frame,
    .bounds = frame_bounds};

Status read_smolvlm(const GgufFile& file, VisionConfig* c) {
  int64_t scale = 1, longest_edge = 0;
  OCELLUS_TRY(read_vision_size(file, "clip.vision.projection_dim", kMaxVisionWidth, &c->output_width));
  OCELLUS_TRY(file.read_int("clip.vision.projector.scale_factor", 1, 64, &scale));
  OCELLUS_TRY(file.read_int("clip.vision.preproc_image_size", 0, kMaxLongestEdge, &longest_edge));
  c->scale_factor = static_cast<int32_t>(scale);
  c->longest_edge = static_cast<int32_t>(longest_edge);
  return {};
}

Status bind_smolvlm(const TensorBinder& binder, VisionModel* m) {
  const VisionConfig& c = m->config;
  OCELLUS_TRY(binder.vector("v.post_ln.weight", c.width, &m->final_norm.weight));
  OCELLUS_TRY(binder.vector("v.post_ln.bias", c.width, &m->final_norm.bias));
  return binder.matrix("mm.model.fc.weight", c.output_width, c.joined_width(), &m->projector.first.weight);
}

/// SigLIP; 4 x 4 or 3 x 3 patches side by side are a row.
void encode_smolvlm(TowerPass& t) {
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
  t.project(shuffle_pixels, [&](JoinedRows rows) { rows.write(m.projector.first); });
}

constexpr VisionTower kTower = {.bind_layer = bind_plain_layer, .encode = encode_smolvlm};

void describe_smolvlm(const VisionConfig& c, GgufHeaderWriter* file, ShapeTensors* tensors) {
  file->add_u32("clip.vision.projector.scale_factor", c.scale_factor);
  file->add_u32("clip.vision.preproc_image_size", c.longest_edge);
  file->add_tensor("v.patch_embd.bias", WeightFormat::kF32, {c.width});
  tensors->norm("", "v.post_ln", c.width, true);
  tensors->matrix("", "mm.model.fc", c.output_width, c.joined_width());
}

/// Writes 0 to 999 in English words, as num2words does for transformers' processor.
void write_number(int32_t number, char* out, size_t bytes) {
  static constexpr const char* kSmall[] = {
      "zero", "one",    "two",    "three",    "four",     "five",    "six",     "seven",     "eight",    "nine",
      "ten",  "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"};
  static constexpr const char* kTens[] = {"twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"};
  char hundreds[32] = "";
  const int32_t rest = number % 100;
  if (number >= 100)
    std::snprintf(hundreds, sizeof hundreds, "%s hundred%s", kSmall[number / 100], rest > 0 ? " and " : "");
  if (number >= 100 && rest == 0)
    std::snprintf(out, bytes, "%s", hundreds);
  else if (rest < 20)
    std::snprintf(out, bytes, "%s%s", hundreds, kSmall[rest]);
  else
    std::snprintf(out, bytes, "%s%s%s%s", hundreds, kTens[rest / 10 - 2], rest % 10 > 0 ? "-" : "",
                  rest % 10 > 0 ? kSmall[rest % 10] : "");
}

/// Writes SmolVLM2's texts, as transformers' SmolVLMProcessor does.
void write_before_frame(const ClipTimes& clip, int32_t frame, ClipText* out) {
  char intro[160] = "";
  const auto second = static_cast<int32_t>(clip.seconds[frame]);
  if (frame == 0) {
    char count[64];
    write_number(clip.frame_count, count, sizeof count);
    const double last = clip.seconds[clip.frame_count - 1];
    const auto seconds = static_cast<int32_t>(clip.duration > 0 ? clip.duration : last);
    std::snprintf(intro, sizeof intro,
                  "You are provided the following series of %s frames from a %d:%02d:%02d [H:MM:SS] video.\n", count,
                  seconds / 3600, seconds / 60 % 60, seconds % 60);
  }
  std::snprintf(out->text, sizeof out->text, "%s\nFrame from %02d:%02d:", intro, second / 60, second % 60);
}

/// Samples as transformers' SmolVLMVideoProcessor with SmolVLM2's settings: one frame a second or, if those are too
/// many, evenly spaced ones without the first and the last second.
int32_t sample_smolvlm(int32_t frame_count, double duration, int32_t most, int32_t* indices) {
  constexpr double kRate = 1, kSkippedSeconds = 1;
  // A whole rate, whose seconds are cut to frames below, is not to come out a little less.
  double rate = duration > 0 ? frame_count / duration : 0;
  if (frame_count / std::nearbyint(rate) == duration) rate = std::nearbyint(rate);
  const auto wanted =
      static_cast<int32_t>(std::clamp(std::nearbyint(kRate * duration), 1.0, static_cast<double>(most)));
  int32_t first = 0, last = frame_count - 1;
  if (duration - 2 * kSkippedSeconds > most * kRate) {
    first = static_cast<int32_t>(std::min(kSkippedSeconds * rate, static_cast<double>(frame_count)));
    last = std::min(static_cast<int32_t>(frame_count - kSkippedSeconds * rate), last);
  }
  if (first >= last) {
    first = 0;
    last = frame_count - 1;
  }
  const double step = wanted > 1 ? static_cast<double>(last - first) / (wanted - 1) : 0;
  int32_t count = 0;
  for (int32_t i = 0; i < wanted; ++i) {
    const int32_t index = i > 0 && i == wanted - 1 ? last : static_cast<int32_t>(i * step + first);
    if (count == 0 || index > indices[count - 1]) indices[count++] = index;
  }
  return count;
}

constexpr std::string_view kTokens[] = {"<end_of_utterance>", "<fake_token_around_image>", "<image>", "<global-img>"};

// SigLIP towers: google/siglip-base-patch16-512 and google/siglip-so400m-patch14-384, as the model cards below use
// them.
constexpr VisionConfig siglip_base(int32_t text_width) {
  return {.family = &kSmolVlmFamily.vision,
          .image_size = 512,
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
  return {.family = &kSmolVlmFamily.vision,
          .image_size = 384,
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

// Values from config.json of the published model.
constexpr ModelShape kShapes[] = {
    {.name = "SmolVLM-256M",
     .published = "HuggingFaceTB/SmolVLM-256M-Instruct",
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
    {.name = "SmolVLM-500M",
     .published = "HuggingFaceTB/SmolVLM-500M-Instruct",
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
    {.name = "SmolVLM2-2.2B",
     .published = "HuggingFaceTB/SmolVLM2-2.2B-Instruct",
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
};

}  // namespace

const Family kSmolVlmFamily = {.name = "SmolVLM",
                               .vision = {.projector = "idefics3",
                                          .tower = &kTower,
                                          .read = read_smolvlm,
                                          .bind = bind_smolvlm,
                                          .views = &kViews,
                                          .plain_views = &kPlainViews,
                                          .output_width_from = "clip.vision.projection_dim"},
                               .describe = describe_smolvlm,
                               .describe_layer = describe_plain_layer,
                               .picture_tokens = kTokens,
                               .named_tiles = 6,
                               .end_token = "<end_of_utterance>",
                               .clips = {.most_frames = 64,
                                         .views = &kFrameViews,
                                         .sample = sample_smolvlm,
                                         .write_before = write_before_frame,
                                         // A question follows: before a word two line ends are two tokens.
                                         .after = {"\n", "\n"}},
                               .shapes = kShapes};

}  // namespace ocellus

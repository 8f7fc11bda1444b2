// Qwen2-VL, Qwen2.5-VL and Qwen3-VL (Cosmos-Reason2 is one): how they see pictures and clips, and their published
// shapes.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "runtime/models/qwen_tower.h"
#include "runtime/models/qwen_views.h"

namespace ocellus {

extern const Family kQwen2VlFamily, kQwen25VlFamily, kQwen3VlFamily;  // referenced by their shapes

namespace {

constexpr ViewRules views_by(void (*plan)(const PreprocessConfig&, ViewPlan*)) {
  return {.name = "qwen-vl",
          .marks = {.before = "<|vision_start|>", .after = "<|vision_end|>"},
          .has_grid_positions = true,
          .plan = plan,
          .bounds = bound_qwen_views};
}
constexpr ViewRules kViews = views_by(plan_qwen_view), kFrameViews = views_by(plan_qwen_frame);

/// The frames of a longer clip are smaller. The published code divides by the number of frames that a clip has, here it
/// is the number that was planned, so that the plan of a clip with fewer frames holds it.
int32_t clip_rows(int32_t frames) {
  return std::max(std::min(kMostFrameRows, kMostClipRows / (frames + frames % 2)), 1);
}

/// An even number, except of a single frame, which the published code refuses.
int32_t count_pairs(int32_t frame_count, double duration, int32_t most) {
  const int32_t count = count_sampled(frame_count, duration, most);
  return count > 1 ? count - count % 2 : count;
}

/// Samples as qwen-vl-utils does: evenly from the first frame to the last, an even number of them. Their places are
/// those of torch.linspace: in single precision, rounded once, from both ends.
int32_t sample_qwen(int32_t frame_count, double duration, int32_t most, int32_t* indices) {
  const int32_t count = count_pairs(frame_count, duration, most);
  const auto last = static_cast<float>(frame_count - 1);
  const double step = last / static_cast<float>(std::max(count - 1, 1));
  for (int32_t i = 0; i < count; ++i) {
    const double place = i < count / 2 || count == 1 ? step * i : last - step * (count - 1 - i);
    indices[i] = static_cast<int32_t>(std::nearbyint(static_cast<float>(place)));
  }
  return count;
}

/// As transformers' Qwen2VLVideoProcessor: evenly from the first frame on. It computes in single precision, so that it
/// may take the frame before in videos of more than 16,384.
int32_t sample_qwen2_transformers(int32_t frame_count, double duration, int32_t most, int32_t* indices) {
  const int32_t count = count_pairs(frame_count, duration, most);
  for (int32_t i = 0; i < count; ++i) indices[i] = evenly_spaced(i, count, frame_count);
  return count;
}

/// The mean of a pair's times. The last frame of an odd number is a pair with itself.
void write_before_pair(const ClipTimes& clip, int32_t frame, ClipText* out) {
  const double next = clip.seconds[std::min(frame + 1, clip.frame_count - 1)];
  std::snprintf(out->text, sizeof out->text, "<%.1f seconds>", (clip.seconds[frame] + next) / 2);
}

/// Seconds from one pair to the next, cut to whole ones, at two positions a second. Times may be given without a
/// duration.
int32_t time_step_25(const ClipTimes& clip) {
  constexpr int32_t kPositionsPerSecond = 2;
  const double frames = clip.frame_count, passed = clip.seconds[clip.frame_count - 1] - clip.seconds[0];
  const double each = clip.duration > 0 ? clip.duration / frames : passed / std::max(frames - 1, 1.0);
  return kPositionsPerSecond * static_cast<int32_t>(2 * each);
}

int32_t time_step_2(const ClipTimes&) { return 1; }

/// Clips whose pairs are pictures with their times before them.
constexpr ClipRules kTimedPairs = {.most_frames = kMostQwenFrames,
                                   .group = 2,
                                   .frame_views = &kFrameViews,
                                   .rows = clip_rows,
                                   .sample = sample_qwen,
                                   .sample_as_transformers = sample_evenly,
                                   .write_before = write_before_pair};

/// Clips whose pairs are one block, at the same lines and columns. Text after it begins after the largest position in
/// the block, as in Qwen's own code; transformers 5.17 lets it begin after the last line or column, so that it differs
/// in long clips. The frames' sizes are bounded as Qwen3-VL's.
constexpr ClipRules block_of_pairs(int32_t (*time_step)(const ClipTimes&)) {
  return {.most_frames = kMostQwenFrames,
          .group = 2,
          .rows = clip_rows,
          .sample = sample_qwen,
          .sample_as_transformers = sample_qwen2_transformers,
          .time_step = time_step};
}

constexpr std::string_view kTokens[] = {"<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"};

constexpr float kClipMean[3] = {0.48145466f, 0.4578275f, 0.40821073f},
                kClipDeviation[3] = {0.26862954f, 0.26130258f, 0.27577711f};

constexpr VisionConfig qwen2_tower(int32_t text_width) {
  return {.family = &kQwen2VlFamily.vision,
          .activation = Activation::kQuickGelu,
          .image_size = 560,
          .patch_size = 14,
          .width = 1280,
          .mlp_width = 5120,
          .layer_count = 32,
          .heads = 16,
          .frame_kernels = 2,
          .any_size = true,
          .min_pixels = kLeastQwenRows * 28 * 28,
          .max_pixels = kMostQwenRows * 28 * 28,
          .usual_rows = kUsualQwenRows,
          .scale_factor = 2,
          .projector_width = 5120,
          .output_width = text_width,
          .image_mean = {kClipMean[0], kClipMean[1], kClipMean[2]},
          .image_std = {kClipDeviation[0], kClipDeviation[1], kClipDeviation[2]}};
}

constexpr VisionConfig qwen25_tower(int32_t text_width) {
  VisionConfig config = qwen2_tower(text_width);
  config.family = &kQwen25VlFamily.vision;
  config.activation = Activation::kSilu;
  config.mlp_width = 3420;
  config.window = 4;
  config.window_period = 8;
  return config;
}

/// `width`: 1024, or 1152 with more layers.
constexpr VisionConfig qwen3_tower(int32_t width, int32_t text_width) {
  const bool large = width > 1024;
  VisionConfig config = qwen2_tower(text_width);
  config.family = &kQwen3VlFamily.vision;
  config.activation = Activation::kGeluTanh;
  config.image_size = 768;
  config.patch_size = 16;
  config.width = width;
  config.mlp_width = large ? 4304 : 4096;
  config.layer_count = large ? 27 : 24;
  config.position_side = 48;
  config.deepstack_count = 3;
  for (int32_t i = 0; i < 3; ++i) config.deepstack_layers[i] = large ? 8 * (i + 1) : 6 * i + 5;
  config.min_pixels = 64 * 32 * 32;
  config.max_pixels = kMostQwenRows * 32 * 32;
  config.projector_width = 4 * width;
  for (int32_t i = 0; i < 3; ++i) config.image_mean[i] = config.image_std[i] = 0.5f;
  return config;
}

struct QwenText {
  int32_t layers, width, query_heads, kv_heads, mlp_width, vocabulary, context;
};

constexpr TextConfig qwen2_text(const QwenText& t) {
  return {.architecture = find_text_architecture("qwen2vl"),
          .layer_count = t.layers,
          .width = t.width,
          .query_heads = t.query_heads,
          .kv_heads = t.kv_heads,
          .head_dim = 128,
          .mlp_width = t.mlp_width,
          .vocabulary = t.vocabulary,
          .context_length = t.context,
          .epsilon = 1e-6f,
          .rope = {.base = 1000000.0f, .sections = {.counts = {16, 24, 24}}}};
}

constexpr TextConfig qwen3_text(const QwenText& t) {
  TextConfig config = qwen2_text(t);
  config.architecture = find_text_architecture("qwen3vl");
  config.deepstack_layers = 3;
  config.rope.base = 5000000.0f;
  config.rope.sections = {.counts = {24, 20, 20}, .interleaved = true};
  return config;
}

// Values from config.json of the published models.
constexpr ModelShape kQwen2Shapes[] = {
    {.name = "Qwen2-VL-2B",
     .published = "Qwen/Qwen2-VL-2B-Instruct",
     .text = qwen2_text({28, 1536, 12, 2, 8960, 151936, 32768}),
     .tied = true,
     .vision = qwen2_tower(1536)},
    {.name = "Qwen2-VL-7B",
     .published = "Qwen/Qwen2-VL-7B-Instruct",
     .text = qwen2_text({28, 3584, 28, 4, 18944, 152064, 32768}),
     .vision = qwen2_tower(3584)},
};

constexpr ModelShape kQwen25Shapes[] = {
    {.name = "Qwen2.5-VL-3B",
     .published = "Qwen/Qwen2.5-VL-3B-Instruct",
     .text = qwen2_text({36, 2048, 16, 2, 11008, 151936, 128000}),
     .tied = true,
     .vision = qwen25_tower(2048)},
    {.name = "Qwen2.5-VL-7B",
     .published = "Qwen/Qwen2.5-VL-7B-Instruct",
     .text = qwen2_text({28, 3584, 28, 4, 18944, 152064, 128000}),
     .vision = qwen25_tower(3584)},
};

constexpr TextConfig kQwen3Text2b = qwen3_text({28, 2048, 16, 8, 6144, 151936, 262144});
constexpr TextConfig kQwen3Text8b = qwen3_text({36, 4096, 32, 8, 12288, 151936, 262144});

constexpr ModelShape kQwen3Shapes[] = {
    {.name = "Qwen3-VL-2B",
     .published = "Qwen/Qwen3-VL-2B-Instruct",
     .text = kQwen3Text2b,
     .tied = true,
     .vision = qwen3_tower(1024, 2048)},
    {.name = "Qwen3-VL-4B",
     .published = "Qwen/Qwen3-VL-4B-Instruct",
     .text = qwen3_text({36, 2560, 32, 8, 9728, 151936, 262144}),
     .tied = true,
     .vision = qwen3_tower(1024, 2560)},
    {.name = "Qwen3-VL-8B",
     .published = "Qwen/Qwen3-VL-8B-Instruct",
     .text = kQwen3Text8b,
     .vision = qwen3_tower(1152, 4096)},
    {.name = "Cosmos-Reason2-2B",
     .published = "nvidia/Cosmos-Reason2-2B",
     .text = kQwen3Text2b,
     .tied = true,
     .vision = qwen3_tower(1024, 2048)},
    {.name = "Cosmos-Reason2-8B",
     .published = "nvidia/Cosmos-Reason2-8B",
     .text = kQwen3Text8b,
     .vision = qwen3_tower(1152, 4096)},
};

constexpr Family qwen_family(const char* name, const char* projector, const VisionTower* tower, PlaceUnits places,
                             const ClipRules& clips, std::span<const ModelShape> shapes) {
  return {.name = name,
          .vision = {.projector = projector,
                     .tower = tower,
                     .read = read_qwen,
                     .bind = bind_qwen,
                     .views = &kViews,
                     .output_width_from = "the height of tensor 'mm.2.weight'"},
          .describe = describe_qwen,
          .describe_layer = describe_plain_layer,
          .picture_tokens = kTokens,
          .clips = clips,
          .places = places,
          .shapes = shapes};
}

constexpr Family qwen3_family() {
  Family family =
      qwen_family("Qwen3-VL", "qwen3vl_merger", &kQwen3Tower, PlaceUnits::kThousandths, kTimedPairs, kQwen3Shapes);
  family.describe_layer = describe_qwen3_layer;
  return family;
}

/// Its towers' files had Qwen2-VL's projector type at first.
constexpr Family qwen25_family() {
  Family family = qwen_family("Qwen2.5-VL", "qwen2.5vl_merger", &kQwen25Tower, PlaceUnits::kResizedPixels,
                              block_of_pairs(time_step_25), kQwen25Shapes);
  family.vision.old_projector = "qwen2vl_merger";
  family.vision.claims = has_qwen_gate;
  family.describe_layer = describe_qwen25_layer;
  return family;
}

}  // namespace

const Family kQwen25VlFamily = qwen25_family();
const Family kQwen2VlFamily = qwen_family("Qwen2-VL", "qwen2vl_merger", &kQwen2Tower, PlaceUnits::kThousandths,
                                          block_of_pairs(time_step_2), kQwen2Shapes);
const Family kQwen3VlFamily = qwen3_family();

}  // namespace ocellus

// Ministral 3, Mistral Small 3.1 and 3.2, and Pixtral 12B: a tower that takes pictures at any size, rotates queries and
// keys by line and column, and in all but Pixtral joins 2 x 2 patches to a row of the language model. Lines of a
// picture end with a row of the model's own, the last one with a token. LightOnOCR has the same tower and merger, and
// lines without ends.
#include <algorithm>
#include <cmath>

#include "mm/tower/tower_pass.h"
#include "platform/round_up.h"
#include "runtime/models/family.h"

namespace ocellus {

extern const Family kPixtralFamily, kLightOnOcrFamily;  // referenced by their shapes

namespace {

constexpr const char *kMergeKey = "clip.vision.spatial_merge_size", *kMerger = "mm.patch_merger.weight";
constexpr int32_t kUsualRows = 1280;  // the published code has no other bound than the longest side

/// Rows of a picture whose longest side has at most `longest` pixels: sides are truncated, and rounded up to rows.
TileMap rows_within(Size picture, double longest, int32_t row_side) {
  const double ratio = std::max({picture.height / longest, picture.width / longest, 1.0});
  const auto rows = [&](int32_t pixels) {
    return std::max(divide_up(static_cast<int32_t>(std::floor(pixels / ratio)), row_side), 1);
  };
  return {.lines = rows(picture.height), .cols = rows(picture.width)};
}

/// All rows but the last line's end, which is a token.
int64_t row_count(const TileMap& map, const ViewRules& rules) {
  return rules.has_lines ? map.rows() - 1 : int64_t{map.lines} * map.cols;
}

/// The longest side shrinks by a row until the picture's rows are within their bound.
void plan_pixtral(const PreprocessConfig& config, ViewPlan* plan) {
  const int32_t side = config.row_side;
  int32_t longest = config.image_size;
  plan->map = rows_within(plan->source, longest, side);
  while (row_count(plan->map, *config.rules) > config.view_rows && longest > side)
    plan->map = rows_within(plan->source, longest -= side, side);
  plan->overview = Canvas::stretched({plan->map.cols * side, plan->map.lines * side}, Filter::kBicubic);
  plan->view_rows = plan->view_positions = static_cast<int32_t>(row_count(plan->map, *config.rules));
}

/// Maximum rows of a picture within the limits: a x b rows of pixels become (a + 1) (b + 2) at most, with their ends.
int64_t most_rows(const PreprocessConfig& config, const ImageLimits& limits) {
  const double side = config.row_side, root = std::sqrt(limits.max_aspect), stretch = root + 1 / root;
  const double rows = static_cast<double>(limits.max_pixels) / (side * side);
  const double sides = std::min(static_cast<double>(max_side_sum(limits)) / side, std::sqrt(rows) * stretch);
  return std::min(max_row_count(config), static_cast<int64_t>(rows + 2 * sides) + 2);
}

/// The longer side of a reduced picture is that of a square of as many rows as fit, or longer, or the longest side.
ViewBounds pixtral_bounds(const PreprocessConfig& config, const ImageLimits& limits) {
  const double root = std::sqrt(static_cast<double>(config.view_rows)) - 1;
  const auto least =
      static_cast<int64_t>(std::clamp(root, 1.0, std::max(1.0, config.image_size / config.row_side * 1.0)));
  ViewBounds bounds;
  bounds.rows = most_rows(config, limits);
  bound_resizes(config.row_side, least * least, limits, &bounds);
  return bounds;
}

constexpr ViewRules kViews = {.name = "pixtral",
                              .marks = {.after = "[IMG_END]"},
                              .has_lines = true,
                              .plan = plan_pixtral,
                              .bounds = pixtral_bounds};
constexpr ViewRules kPageViews = {.name = "lightonocr", .plan = plan_pixtral, .bounds = pixtral_bounds};

/// Pixels of the most rows of a picture: those of a square with the longest side.
constexpr int64_t most_pixels(int32_t image_size, int32_t row_side, bool has_lines = true) {
  const int64_t lines = (image_size + row_side - 1) / row_side;
  return (has_lines ? lines * (lines + 1) - 1 : lines * lines) * row_side * row_side;
}

/// All rows of a page, whose letters are small.
constexpr int32_t usual_rows(int64_t max_pixels, int32_t row_side, bool has_lines) {
  return has_lines ? kUsualRows : static_cast<int32_t>(max_pixels / row_side / row_side);
}

Status read_pixtral(const GgufFile& file, VisionConfig* c) {
  int64_t merge = 1;
  OCELLUS_TRY(file.read_int(kMergeKey, 1, 8, &merge));
  if (merge == 1 && file.find_tensor(kMerger) != nullptr)
    return OCELLUS_FAIL(Code::kBadFile, "%s is missing or 1, but tensor '%s' joins patches", kMergeKey, kMerger);
  if (c->activation != Activation::kSilu)
    return OCELLUS_FAIL(Code::kUnsupported, "clip.use_silu is not set: this build runs towers of this kind with SiLU");
  c->scale_factor = static_cast<int32_t>(merge);
  c->any_size = true;
  const bool has_lines = c->family->views->has_lines;
  c->max_pixels = most_pixels(c->image_size, c->row_side(), has_lines);
  c->usual_rows = usual_rows(c->max_pixels, c->row_side(), has_lines);
  OCELLUS_TRY(read_vision_rows(file, "mm.1.weight", &c->projector_width));
  return read_vision_rows(file, "mm.2.weight", &c->output_width);
}

Status bind_pixtral(const TensorBinder& binder, VisionModel* m) {
  const VisionConfig& c = m->config;
  Projector& p = m->projector;
  OCELLUS_TRY(binder.vector("v.pre_ln.weight", c.width, &m->first_norm.weight));
  if (c.scale_factor > 1) {
    OCELLUS_TRY(binder.vector("mm.input_norm.weight", c.width, &m->final_norm.weight));
    OCELLUS_TRY(binder.matrix(kMerger, c.width, c.joined_width(), &p.merger.weight));
  }
  OCELLUS_TRY(binder.matrix("mm.1.weight", c.projector_width, c.width, &p.first.weight));
  OCELLUS_TRY(binder.optional_vector("mm.1.bias", c.projector_width, &p.first.bias));
  OCELLUS_TRY(binder.matrix("mm.2.weight", c.output_width, c.projector_width, &p.second.weight));
  OCELLUS_TRY(binder.optional_vector("mm.2.bias", c.output_width, &p.second.bias));
  if (!c.family->views->has_lines) return {};
  return binder.vector("v.token_embd.img_break", c.output_width, &m->row_end);
}

/// Lines and columns turn pairs at the frequencies of one series in turn. The merger's inputs are channel by channel.
void encode(TowerPass& t, float merger_epsilon) {
  const VisionModel& m = t.model();
  const VisionConfig& c = m.config;
  const bool merges = c.scale_factor > 1;
  t.embed_patches();
  t.normalise(m.first_norm);
  t.find_angles(RopePairing::kAdjacent, 10000.0f, false, true);
  while (const VisionLayer* w = t.next_layer()) {
    t.attend(
        *w, [](const HeadRows& heads) { heads.rotate(); }, [&](HiddenRows rows) { rows.add(w->attention_output); });
    t.run_mlp([&](HiddenRows rows) {
      rows.map_gated(w->mlp_norm, w->mlp_gate, w->mlp_up, Activation::kSilu);
      rows.add(w->mlp_down);
    });
  }
  if (merges) t.normalise(m.final_norm, merger_epsilon);
  t.project(unfold_patches, [&](JoinedRows rows) {
    if (merges) rows.map(m.projector.merger, c.width, Activation::kNone);
    rows.map(m.projector.first, c.projector_width, Activation::kGeluErf);
    rows.write(m.projector.second);
  });
}

void encode_pixtral(TowerPass& t) { encode(t, t.config().epsilon); }
/// The merger's norm has the language model's epsilon in the published code, which is another one here.
void encode_page(TowerPass& t) { encode(t, 1e-6f); }

constexpr VisionTower kTower = {.bind_layer = bind_gated_layer, .encode = encode_pixtral},
                      kPageTower = {.bind_layer = bind_gated_layer, .encode = encode_page};

void describe_pixtral(const VisionConfig& c, GgufHeaderWriter* file, ShapeTensors* tensors) {
  if (c.scale_factor > 1) {
    file->add_u32(kMergeKey, c.scale_factor);
    tensors->norm("", "mm.input_norm", c.width);
    tensors->matrix("", "mm.patch_merger", c.width, c.joined_width());
  }
  tensors->norm("", "v.pre_ln", c.width);
  const bool biased = c.scale_factor == 1, has_lines = c.family->views->has_lines;
  tensors->matrix("", "mm.1", c.projector_width, c.width, biased);
  tensors->matrix("", "mm.2", c.output_width, c.projector_width, biased);
  if (has_lines) file->add_tensor("v.token_embd.img_break", WeightFormat::kF32, {c.output_width});
}

void describe_pixtral_layer(const VisionConfig& c, std::string_view at, ShapeTensors* tensors) {
  for (const char* part : {"ln1", "ln2"}) tensors->norm(at, part, c.width);
  for (const char* part : {"attn_q", "attn_k", "attn_v", "attn_out"}) tensors->matrix(at, part, c.width, c.width);
  for (const char* part : {"ffn_gate", "ffn_up"}) tensors->matrix(at, part, c.mlp_width, c.width);
  tensors->matrix(at, "ffn_down", c.width, c.mlp_width);
}

constexpr std::string_view kTokens[] = {"[IMG]", "[IMG_BREAK]", "[IMG_END]"}, kPageTokens[] = {"<|image_pad|>"};

constexpr VisionConfig pixtral_tower(int32_t text_width) {
  return {.family = &kPixtralFamily.vision,
          .activation = Activation::kSilu,
          .image_size = 1024,
          .patch_size = 16,
          .width = 1024,
          .mlp_width = 4096,
          .layer_count = 24,
          .heads = 16,
          .any_size = true,
          .max_pixels = most_pixels(1024, 16),
          .usual_rows = kUsualRows,
          .projector_width = text_width,
          .output_width = text_width,
          .epsilon = 1e-5f,
          .image_mean = {0.48145466f, 0.4578275f, 0.40821073f},
          .image_std = {0.26862954f, 0.26130258f, 0.27577711f}};
}

constexpr VisionConfig merging_tower(int32_t text_width) {
  VisionConfig config = pixtral_tower(text_width);
  config.image_size = 1540;
  config.patch_size = 14;
  config.scale_factor = 2;
  config.max_pixels = most_pixels(1540, 28);
  return config;
}

constexpr VisionConfig page_tower() {
  VisionConfig config = merging_tower(1024);
  config.family = &kLightOnOcrFamily.vision;
  config.max_pixels = most_pixels(1540, 28, false);
  config.usual_rows = usual_rows(config.max_pixels, 28, false);
  return config;
}

/// The language model of Qwen3-0.6B.
constexpr TextConfig page_text(int32_t context_length) {
  return {.architecture = find_text_architecture("qwen3"),
          .layer_count = 28,
          .width = 1024,
          .query_heads = 16,
          .kv_heads = 8,
          .head_dim = 128,
          .mlp_width = 3072,
          .vocabulary = 151936,
          .context_length = context_length,
          .epsilon = 1e-6f,
          .rope = {.base = 1e6f}};
}

struct MistralText {
  int32_t layers, width, mlp_width;
  float rope_base = 1e9f;
};

constexpr TextConfig mistral_text(const MistralText& t) {
  return {.layer_count = t.layers,
          .width = t.width,
          .query_heads = 32,
          .kv_heads = 8,
          .head_dim = 128,
          .mlp_width = t.mlp_width,
          .vocabulary = 131072,
          .context_length = 131072,
          .rope = {.base = t.rope_base}};
}

constexpr TextConfig ministral_text(const MistralText& t) {
  TextConfig config = mistral_text(t);
  config.architecture = find_text_architecture("mistral3");
  config.context_length = 262144;
  config.yarn = {.length = 16384, .factor = 16.0f};
  config.temperature = {.beta = 0.1f, .length = 16384};
  return config;
}

// Values from config.json of the published models.
constexpr ModelShape kShapes[] = {
    {.name = "Ministral3-3B",
     .published = "mistralai/Ministral-3-3B-Instruct-2512",
     .text = ministral_text({26, 3072, 9216, 1e6f}),
     .tied = true,
     .vision = merging_tower(3072)},
    {.name = "Ministral3-8B",
     .published = "mistralai/Ministral-3-8B-Instruct-2512",
     .text = ministral_text({34, 4096, 14336, 1e6f}),
     .vision = merging_tower(4096)},
    {.name = "Ministral3-14B",
     .published = "mistralai/Ministral-3-14B-Instruct-2512",
     .text = ministral_text({40, 5120, 16384}),
     .vision = merging_tower(5120)},
    {.name = "Mistral3.2-24B",
     .published = "mistralai/Mistral-Small-3.2-24B-Instruct-2506",
     .text = mistral_text({40, 5120, 32768}),
     .vision = merging_tower(5120)},
    {.name = "Pixtral-12B",
     .published = "mistral-community/pixtral-12b",
     .text = mistral_text({40, 5120, 14336}),
     .vision = pixtral_tower(5120)},
};
constexpr ModelShape kPageShapes[] = {
    {.name = "LightOnOCR-1B",
     .published = "lightonai/LightOnOCR-1B-1025",
     .text = page_text(8192),
     .tied = true,
     .vision = page_tower()},
    {.name = "LightOnOCR-2-1B",
     .published = "lightonai/LightOnOCR-2-1B",
     .text = page_text(16384),
     .tied = true,
     .vision = page_tower()},
};

constexpr Family pixtral_family(const char* name, VisionFamily vision, std::span<const std::string_view> tokens,
                                std::span<const ModelShape> shapes) {
  vision.read = read_pixtral;
  vision.bind = bind_pixtral;
  vision.output_width_from = "the height of tensor 'mm.2.weight'";
  return {.name = name,
          .vision = vision,
          .describe = describe_pixtral,
          .describe_layer = describe_pixtral_layer,
          .picture_tokens = tokens,
          .shapes = shapes};
}

}  // namespace

const Family kPixtralFamily =
    pixtral_family("Pixtral", {.projector = "pixtral", .tower = &kTower, .views = &kViews}, kTokens, kShapes);
const Family kLightOnOcrFamily = pixtral_family(
    "LightOnOCR", {.projector = "lightonocr", .tower = &kPageTower, .views = &kPageViews}, kPageTokens, kPageShapes);

}  // namespace ocellus

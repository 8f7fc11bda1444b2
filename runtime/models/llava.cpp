// LLaVA-1.5 and LLaVA-1.6 (LLaVA-NeXT): a CLIP tower up to its penultimate layer, and a two-layer projector. LLaVA-1.5
// pads a picture to one square view with the mean colour (image_aspect_ratio "pad"). LLaVA-1.6 stretches it to one view
// and, keeping its aspect, cuts it into the tiles of one of a few sizes (image_aspect_ratio "anyres").
#include <algorithm>
#include <cmath>
#include <cstring>

#include "mm/tower/tower_pass.h"
#include "quant/gguf_names.h"
#include "runtime/models/family.h"

namespace ocellus {

extern const Family kLlavaFamily, kLlavaNextFamily;  // referenced by their shapes

namespace {

void plan_llava(const PreprocessConfig& config, ViewPlan* plan) {
  plan->overview = Canvas::stretched({config.image_size, config.image_size}, Filter::kBicubic);
  plan->overview.square = std::max(plan->source.width, plan->source.height);
}

ViewBounds llava_bounds(const PreprocessConfig& config, const ImageLimits& limits) {
  // A side that keeps its length is not filtered and needs less than a shorter one.
  const int32_t square = std::max(limits.max_side, config.image_size + 1);
  const Size from = {square, square}, to = {config.image_size, config.image_size};
  ViewBounds bounds;
  bounds.rows = config.view_rows;
  bounds.resize_bytes = aligned_bytes(int64_t{3} * square) +
                        aligned_bytes(PillowResize::scratch_bytes(from, to, {.are_columns = true}, Filter::kBicubic));
  bounds.stage_pixels = int64_t{config.image_size} * limits.max_side;
  bounds.longest_side = config.image_size;
  return bounds;
}

constexpr ViewRules kViews = {.name = "llava", .plan = plan_llava, .bounds = llava_bounds};

/// Calls visit(size) for every possible size of a tiled image.
template <class Visit>
void for_each_tiled_size(const PreprocessConfig& config, Visit visit) {
  for (int32_t i = 0; i < config.tiled_size_count; ++i)
    if (config.max_tiles == 0 || tile_count(config.tiled_sizes[i], config.image_size) <= config.max_tiles)
      visit(config.tiled_sizes[i]);
}

/// transformers' select_best_resolution: the size that keeps most of the picture's pixels, and among equals the one
/// that leaves the fewest unused. 0 x 0: no size is allowed.
Size best_tiled_size(const PreprocessConfig& config, Size picture) {
  Size best;
  int64_t most = 0, least_waste = INT64_MAX;
  for_each_tiled_size(config, [&](Size size) {
    const double scale =
        std::min(static_cast<double>(size.width) / picture.width, static_cast<double>(size.height) / picture.height);
    const int64_t fit = static_cast<int64_t>(picture.width * scale) * static_cast<int64_t>(picture.height * scale);
    const int64_t kept = std::min(fit, int64_t{picture.width} * picture.height);
    const int64_t waste = int64_t{size.width} * size.height - kept;
    if (kept < most || (kept == most && waste >= least_waste)) return;
    most = kept;
    least_waste = waste;
    best = size;
  });
  return best;
}

/// Returns the largest size with the picture's aspect that fits the canvas.
Size fitted(Size picture, Size canvas) {
  const double across = static_cast<double>(canvas.width) / picture.width;
  const double down = static_cast<double>(canvas.height) / picture.height;
  if (across < down)
    return {canvas.width, std::min(static_cast<int32_t>(std::ceil(picture.height * across)), canvas.height)};
  return {std::min(static_cast<int32_t>(std::ceil(picture.width * down)), canvas.width), canvas.height};
}

/// transformers' unpad_image: the part of a map of `lines` x `cols` rows that the picture covers, by its aspect.
TileMap unpadded(Size picture, int32_t lines, int32_t cols) {
  const auto truncated = [](double side) { return static_cast<int32_t>(std::floor(side * 1e7 + 0.5) / 1e7); };
  const double shape = static_cast<double>(picture.width) / picture.height;
  if (shape > static_cast<double>(cols) / lines) {
    const int32_t kept = truncated(picture.height * (static_cast<double>(cols) / picture.width));
    const int32_t padding = (lines - kept) / 2;
    return {.lines = lines - 2 * padding, .cols = cols, .top = padding};
  }
  const int32_t kept = truncated(picture.width * (static_cast<double>(lines) / picture.height));
  const int32_t padding = (cols - kept) / 2;
  return {.lines = lines, .cols = cols - 2 * padding, .left = padding};
}

void plan_llava_next(const PreprocessConfig& config, ViewPlan* plan) {
  const Size view = {config.image_size, config.image_size}, tiled = best_tiled_size(config, plan->source);
  plan->overview = Canvas::stretched(view, Filter::kBicubic);
  plan->map = {.lines = 1};
  if (tiled == Size{}) return;
  const Size inner = fitted(plan->source, tiled);
  Canvas tiles = Canvas::stretched(inner, Filter::kBicubic);
  tiles.size = tiled;
  tiles.left = (tiled.width - inner.width) / 2;
  tiles.top = (tiled.height - inner.height) / 2;
  plan->set_tiles(tiles, config.image_size);
  const int32_t side = line_count(config.view_rows);
  plan->map = unpadded(plan->source, plan->tile_rows * side, plan->tile_cols * side);
}

ViewBounds llava_next_bounds(const PreprocessConfig& config, const ImageLimits& limits) {
  const int64_t view = config.image_size, side = line_count(config.view_rows);
  ViewBounds bounds;
  int64_t rows = 1, least = INT32_MAX, most = view;
  bounds.stage_pixels = view * limits.max_side;
  for_each_tiled_size(config, [&](Size size) {
    bounds.tiles = std::max(bounds.tiles, tile_count(size, config.image_size));
    bounds.tile_rows = std::max(bounds.tile_rows, size.height / config.image_size);
    bounds.tiled_pixels = std::max(bounds.tiled_pixels, int64_t{size.width} * size.height);
    rows = std::max(rows, size.height / view * side * (size.width / view * side + 1));
    least = std::min<int64_t>({least, size.width, size.height});
    most = std::max<int64_t>({most, size.width, size.height});
  });
  bounds.rows = config.view_rows + rows;
  bounds.longest_side = static_cast<int32_t>(most);
  bounds.resize_bytes = resize_bound_bytes(longest_side(limits), view, view);
  if (bounds.tiles == 0) return bounds;
  bounds.stages = 2;
  bounds.resize_bytes += resize_bound_bytes(longest_side(limits), least, most);
  bounds.stage_pixels = std::max({bounds.stage_pixels, bounds.tiled_pixels, narrowed_pixels(limits, most)});
  return bounds;
}

constexpr ViewRules kNextViews = {.name = "llava-next",
                                  .overview_first = true,
                                  .has_map = true,
                                  .plan = plan_llava_next,
                                  .drop_tiles = [](PreprocessConfig* config) { config->tiled_size_count = 0; },
                                  .bounds = llava_next_bounds};

constexpr const char* kMergeKey = "clip.vision.mm_patch_merge_type";
constexpr const char* kSizesKey = "clip.vision.image_grid_pinpoints";

/// A file states the layer whose rows the projector reads, or ends with it: LLaVA-1.5's penultimate layer is the file's
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

/// The projector's widths are those of its tensors: clip.vision.projection_dim is the width that CLIP itself projects
/// to.
Status read_clip(const GgufFile& file, VisionConfig* c) {
  c->class_rows = 1;
  OCELLUS_TRY(read_feature_layer(file, c));
  OCELLUS_TRY(read_vision_rows(file, "mm.0.weight", &c->projector_width));
  return read_vision_rows(file, "mm.2.weight", &c->output_width);
}

Status read_llava(const GgufFile& file, VisionConfig* c) {
  std::string_view merge;
  OCELLUS_TRY(file.read_string(kMergeKey, &merge));
  if (!merge.empty() && merge != "flat")
    return OCELLUS_FAIL(Code::kUnsupported,
                        "%s '%.*s' is not supported: this build joins views as 'flat' (LLaVA-1.5) and "
                        "'spatial_unpad' (LLaVA-1.6) do",
                        kMergeKey, shown_bytes(merge), merge.data());
  return read_clip(file, c);
}

bool is_llava_next(const GgufFile& file) {
  std::string_view merge;
  return file.read_string(kMergeKey, &merge).ok() &&
         (merge == "spatial_unpad" || (merge.empty() && file.find(kSizesKey) != nullptr));
}

/// Height and width alternate, as in transformers; the original LLaVA has the width first, which differs if two sizes
/// fit a picture equally well.
Status read_tiled_sizes(const GgufFile& file, VisionConfig* c) {
  const GgufEntry* sides = nullptr;
  OCELLUS_TRY(file.read_array(kSizesKey, GgufType::kI32, &sides));
  if (sides == nullptr || sides->count == 0 || sides->count % 2 != 0 || sides->count > 2 * kMaxTiledSizes)
    return OCELLUS_FAIL(Code::kBadFile, "%s must list 1 to %d pairs of sides", kSizesKey, kMaxTiledSizes);
  c->tiled_size_count = static_cast<int32_t>(sides->count / 2);
  for (int32_t i = 0; i < c->tiled_size_count; ++i) {
    int32_t pair[2];
    std::memcpy(pair, sides->payload + i * sizeof pair, sizeof pair);
    c->tiled_sizes[i] = {pair[1], pair[0]};
  }
  return {};
}

Status read_llava_next(const GgufFile& file, VisionConfig* c) {
  OCELLUS_TRY(read_tiled_sizes(file, c));
  return read_clip(file, c);
}

Status bind_llava(const TensorBinder& binder, VisionModel* m) {
  const VisionConfig& c = m->config;
  OCELLUS_TRY(binder.vector("v.pre_ln.weight", c.width, &m->first_norm.weight));
  OCELLUS_TRY(binder.vector("v.pre_ln.bias", c.width, &m->first_norm.bias));
  OCELLUS_TRY(binder.matrix("mm.0.weight", c.projector_width, c.width, &m->projector.first.weight));
  OCELLUS_TRY(binder.optional_vector("mm.0.bias", c.projector_width, &m->projector.first.bias));
  OCELLUS_TRY(binder.matrix("mm.2.weight", c.output_width, c.projector_width, &m->projector.second.weight));
  return binder.optional_vector("mm.2.bias", c.output_width, &m->projector.second.bias);
}

/// Files use two names for it.
Status bind_llava_next(const TensorBinder& binder, VisionModel* m) {
  OCELLUS_TRY(bind_llava(binder, m));
  const char* name = binder.has("v.image_newline") ? "v.image_newline" : "model.image_newline";
  return binder.vector(name, m->config.output_width, &m->row_end);
}

/// CLIP: a norm before the layers and none after them, as the rows are those of an inner layer. Each patch is a row.
void encode_llava(TowerPass& t) {
  const VisionModel& m = t.model();
  t.embed_patches();
  t.place_class_rows();
  t.normalise(m.first_norm);
  while (const VisionLayer* w = t.next_layer()) {
    t.attend(*w, [&](HiddenRows rows) { rows.add(w->attention_output); });
    t.run_mlp([&](HiddenRows rows) {
      rows.map(w->mlp_norm, w->mlp_up, m.config.activation);
      rows.add(w->mlp_down);
    });
  }
  t.project(shuffle_pixels, [&](JoinedRows rows) {
    rows.map(m.projector.first, m.config.projector_width, Activation::kGeluErf);
    rows.write(m.projector.second);
  });
}

constexpr VisionTower kTower = {.bind_layer = bind_plain_layer, .encode = encode_llava};

void describe_llava(const VisionConfig& c, GgufHeaderWriter*, ShapeTensors* tensors) {
  tensors->norm("", "v.pre_ln", c.width, true);
  tensors->matrix("", "mm.0", c.projector_width, c.width, true);
  tensors->matrix("", "mm.2", c.output_width, c.projector_width, true);
}

void describe_llava_next(const VisionConfig& c, GgufHeaderWriter* file, ShapeTensors* tensors) {
  file->add_string(kMergeKey, "spatial_unpad");
  file->begin_array(kSizesKey, GgufType::kI32, 2 * c.tiled_size_count);
  for (int32_t i = 0; i < c.tiled_size_count; ++i)
    for (const int32_t side : {c.tiled_sizes[i].height, c.tiled_sizes[i].width}) file->append_i32(side);
  file->add_tensor("model.image_newline", WeightFormat::kF32, {c.output_width});
  describe_llava(c, file, tensors);
}

// openai/clip-vit-large-patch14-336 up to the penultimate one of its 24 layers, with LLaVA-1.5's projector.
constexpr VisionConfig clip_vit_large(int32_t text_width) {
  return {.family = &kLlavaFamily.vision,
          .activation = Activation::kQuickGelu,
          .image_size = 336,
          .patch_size = 14,
          .width = 1024,
          .mlp_width = 4096,
          .layer_count = 23,
          .heads = 16,
          .class_rows = 1,
          .projector_width = text_width,
          .output_width = text_width,
          .epsilon = 1e-5f,
          .image_mean = {0.48145466f, 0.4578275f, 0.40821073f},
          .image_std = {0.26862954f, 0.26130258f, 0.27577711f}};
}

// lmsys/vicuna-7b-v1.5
constexpr TextConfig kVicuna7b = {.layer_count = 32,
                                  .width = 4096,
                                  .query_heads = 32,
                                  .kv_heads = 32,
                                  .head_dim = 128,
                                  .mlp_width = 11008,
                                  .vocabulary = 32000,
                                  .context_length = 4096,
                                  .rope = {.base = 10000.0f}};

constexpr ModelShape kShapes[] = {
    {.name = "LLaVA-1.5-7B",
     .published = "liuhaotian/llava-v1.5-7b",
     .text = kVicuna7b,
     .vision = clip_vit_large(4096)},
    // The language model is lmsys/vicuna-13b-v1.5
    {.name = "LLaVA-1.5-13B",
     .published = "liuhaotian/llava-v1.5-13b",
     .text = {.layer_count = 40,
              .width = 5120,
              .query_heads = 40,
              .kv_heads = 40,
              .head_dim = 128,
              .mlp_width = 13824,
              .vocabulary = 32000,
              .context_length = 4096,
              .rope = {.base = 10000.0f}},
     .vision = clip_vit_large(5120)},
};

constexpr VisionConfig clip_with_tiles(int32_t text_width) {
  VisionConfig config = clip_vit_large(text_width);
  config.family = &kLlavaNextFamily.vision;
  config.tiled_size_count = 5;
  const Size sizes[] = {{672, 336}, {336, 672}, {672, 672}, {336, 1008}, {1008, 336}};
  for (int i = 0; i < 5; ++i) config.tiled_sizes[i] = sizes[i];
  return config;
}

constexpr ModelShape kNextShapes[] = {
    {.name = "LLaVA-1.6-Vicuna-7B",
     .published = "liuhaotian/llava-v1.6-vicuna-7b",
     .text = kVicuna7b,
     .vision = clip_with_tiles(4096)},
    // The language model is mistralai/Mistral-7B-Instruct-v0.2
    {.name = "LLaVA-1.6-Mistral-7B",
     .published = "liuhaotian/llava-v1.6-mistral-7b",
     .text = {.layer_count = 32,
              .width = 4096,
              .query_heads = 32,
              .kv_heads = 8,
              .head_dim = 128,
              .mlp_width = 14336,
              .vocabulary = 32000,
              .context_length = 32768,
              .rope = {.base = 1000000.0f}},
     .vision = clip_with_tiles(4096)},
};

}  // namespace

const Family kLlavaNextFamily = {.name = "LLaVA-1.6",
                                 .vision = {.projector = "mlp",
                                            .claims = is_llava_next,
                                            .tower = &kTower,
                                            .read = read_llava_next,
                                            .bind = bind_llava_next,
                                            .views = &kNextViews,
                                            .output_width_from = "the height of tensor 'mm.2.weight'"},
                                 .describe = describe_llava_next,
                                 .describe_layer = describe_plain_layer,
                                 .end_token = "</s>",
                                 .speaks_vicuna = true,
                                 .shapes = kNextShapes};

const Family kLlavaFamily = {.name = "LLaVA-1.5",
                             .vision = {.projector = "mlp",
                                        .tower = &kTower,
                                        .read = read_llava,
                                        .bind = bind_llava,
                                        .views = &kViews,
                                        .output_width_from = "the height of tensor 'mm.2.weight'"},
                             .describe = describe_llava,
                             .describe_layer = describe_plain_layer,
                             .end_token = "</s>",
                             .speaks_vicuna = true,
                             .shapes = kShapes};

}  // namespace ocellus

// LFM2-VL and LFM2.5-VL: a SigLIP2 tower that takes views of any size, 2 x 2 patches side by side, and two linear maps;
// a language model most of whose layers have convolutions in place of attention. Large pictures are cut into tiles,
// which an overview follows that has another size.
#include <algorithm>
#include <cmath>
#include <string_view>

#include "mm/tower/tower_pass.h"
#include "mm/views/smart_resize.h"
#include "runtime/models/qwen_tower.h"
#include "runtime/models/qwen_views.h"
#include "runtime/models/tile_grids.h"

namespace ocellus {

extern const Family kLfm2Family;  // referenced by its shapes

namespace {

constexpr int32_t kLeastRows = 64, kMostRows = 256;  // a view's, in the published processor
constexpr int32_t kTileSide = 512, kLeastTiles = 2, kMostTiles = 10;
constexpr float kProjectorEpsilon = 1e-5f;

TileGrids grids_of(const PreprocessConfig& config) {
  const int32_t most = config.max_tiles > 0 ? std::min(config.max_tiles, kMaxTilesPerSide) : kMostTiles;
  return {.least = std::min(config.min_tiles, most), .most = most, .side = config.longest_edge};
}

/// A picture of more than this many rows, if its sides were rounded to rows, is cut.
int64_t most_whole_rows(const PreprocessConfig& config) { return int64_t{2} * config.view_rows; }

/// A side of less than half a row counts as half a one.
bool is_cut(const PreprocessConfig& config, Size picture) {
  const double side = config.row_side;
  const auto rows = [&](int32_t pixels) { return std::max(0.5, std::nearbyint(pixels / side)); };
  return config.longest_edge > 0 &&
         rows(picture.width) * rows(picture.height) > static_cast<double>(most_whole_rows(config));
}

void plan_lfm2(const PreprocessConfig& config, ViewPlan* plan) {
  const int64_t area = int64_t{config.row_side} * config.row_side;
  const Size size = smart_size({.factor = config.row_side,
                                .min_pixels = config.min_pixels,
                                .max_pixels = config.view_rows * area,
                                .rounds_up = true},
                               plan->source);
  plan->overview = Canvas::stretched(size, Filter::kBilinear);
  plan->view_rows = plan->view_positions = size.width / config.row_side * (size.height / config.row_side);
  if (!is_cut(config, plan->source)) return;
  const TileGrids grids = grids_of(config);
  const Size grid = grids.nearest(plan->source);
  if (grid == Size{1, 1}) return;
  plan->set_tiles(Canvas::stretched({grid.width * grids.side, grid.height * grids.side}, Filter::kBilinear),
                  grids.side);
  plan->rows_per_tile = static_cast<int32_t>(int64_t{grids.side} * grids.side / area);
}

/// True if some picture within the limits is cut: its sides are rounded up by half a row at most.
bool may_be_cut(const PreprocessConfig& config, const ImageLimits& limits) {
  const double side = config.row_side, rows = static_cast<double>(limits.max_pixels) / (side * side);
  return config.longest_edge > 0 && rows + static_cast<double>(max_side_sum(limits)) / side / 2 + 0.25 >
                                        static_cast<double>(most_whole_rows(config));
}

void drop_tiles(PreprocessConfig* config) { config->longest_edge = 0; }

ViewBounds lfm2_bounds(const PreprocessConfig& config, const ImageLimits& limits) {
  PreprocessConfig whole = config;
  drop_tiles(&whole);
  ViewBounds bounds = bound_enlarged_views(whole, limits);
  bounds.positions = 0;
  if (!may_be_cut(config, limits)) return bounds;
  const TileGrids grids = grids_of(config);
  const int64_t area = int64_t{config.row_side} * config.row_side, pixels = int64_t{grids.side} * grids.side;
  grids.add_to(limits, &bounds);
  bounds.rows += bounds.tiles * (pixels / area);
  if (config.planned_rows > 0) bounds.rows = std::min<int64_t>(bounds.rows, config.planned_rows);
  bounds.view_pixels = std::max(bounds.view_pixels, pixels);
  return bounds;
}

constexpr ViewRules kViews = {.name = "lfm2",
                              .marks = {.before = "<|image_start|>",
                                        .before_tile = "<|img_row_%d_col_%d|>",
                                        .before_overview = "<|img_thumbnail|>",
                                        .before_only_view = "",
                                        .after = "<|image_end|>"},
                              .plan = plan_lfm2,
                              .drop_tiles = drop_tiles,
                              .bounds = lfm2_bounds};

/// Files of others have none of these keys.
Status read_tiles(const GgufFile& file, VisionConfig* c) {
  int64_t side = kTileSide, least = kLeastTiles, most = kMostTiles;
  OCELLUS_TRY(file.read_int("clip.vision.preproc_image_size", 0, kMaxLongestEdge, &side));
  OCELLUS_TRY(file.read_int("clip.vision.preproc_min_tiles", 1, kMaxTilesPerSide, &least));
  OCELLUS_TRY(file.read_int("clip.vision.preproc_max_tiles", 1, kMaxTilesPerSide, &most));
  c->longest_edge = static_cast<int32_t>(side);
  c->min_tiles = static_cast<int32_t>(least);
  c->max_tiles = static_cast<int32_t>(most);
  if (side % c->row_side() == 0 && least <= most) return {};
  return OCELLUS_FAIL(Code::kBadFile,
                      "clip.vision.preproc_image_size %lld is no multiple of the %d pixels of a row, or "
                      "clip.vision.preproc_min_tiles %lld is more than preproc_max_tiles %lld",
                      static_cast<long long>(side), c->row_side(), static_cast<long long>(least),
                      static_cast<long long>(most));
}

Status read_lfm2(const GgufFile& file, VisionConfig* c) {
  int64_t scale = 2;
  OCELLUS_TRY(file.read_int("clip.vision.projector.scale_factor", 1, 8, &scale));
  c->scale_factor = static_cast<int32_t>(scale);
  c->norms_joined = file.find_tensor("mm.input_norm.weight") != nullptr;
  const int64_t area = int64_t{c->row_side()} * c->row_side();
  c->any_size = true;
  c->usual_rows = kMostRows;
  c->min_pixels = kLeastRows * area;
  c->max_pixels = kMostRows * area;
  OCELLUS_TRY(read_pixel_limits(file, c));
  OCELLUS_TRY(read_tiles(file, c));
  OCELLUS_TRY(read_position_side(file, c));
  if (c->position_side == 0) return OCELLUS_FAIL(Code::kBadFile, "tensor 'v.position_embd.weight' is missing");
  OCELLUS_TRY(read_vision_rows(file, "mm.1.weight", &c->projector_width));
  return read_vision_rows(file, "mm.2.weight", &c->output_width);
}

/// Files of some models have no norm in the projector, whatever their config.json said.
Status bind_lfm2(const TensorBinder& binder, VisionModel* m) {
  const VisionConfig& c = m->config;
  Projector& p = m->projector;
  OCELLUS_TRY(binder.vector("v.post_ln.weight", c.width, &m->final_norm.weight));
  OCELLUS_TRY(binder.vector("v.post_ln.bias", c.width, &m->final_norm.bias));
  if (c.norms_joined) {
    OCELLUS_TRY(binder.vector("mm.input_norm.weight", c.joined_width(), &p.joined_norm.weight));
    OCELLUS_TRY(binder.vector("mm.input_norm.bias", c.joined_width(), &p.joined_norm.bias));
  }
  OCELLUS_TRY(binder.matrix("mm.1.weight", c.projector_width, c.joined_width(), &p.first.weight));
  OCELLUS_TRY(binder.optional_vector("mm.1.bias", c.projector_width, &p.first.bias));
  OCELLUS_TRY(binder.matrix("mm.2.weight", c.output_width, c.projector_width, &p.second.weight));
  return binder.optional_vector("mm.2.bias", c.output_width, &p.second.bias);
}

void encode_lfm2(TowerPass& t) {
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
  const auto map = [&](JoinedRows rows) {
    rows.map(m.projector.first, m.config.projector_width, Activation::kGeluErf);
    rows.write(m.projector.second);
  };
  if (!m.config.norms_joined) return t.project(shuffle_pixels, map);
  t.project_normed(shuffle_pixels, [&](JoinedRows rows) {
    rows.normalise(m.projector.joined_norm, kProjectorEpsilon);
    map(rows);
  });
}

constexpr VisionTower kTower = {.bind_layer = bind_plain_layer, .encode = encode_lfm2};

void describe_lfm2(const VisionConfig& c, GgufHeaderWriter* file, ShapeTensors* tensors) {
  file->add_u32("clip.vision.projector.scale_factor", c.scale_factor);
  file->add_u32("clip.vision.image_min_pixels", c.min_pixels);
  file->add_u32("clip.vision.image_max_pixels", c.max_pixels);
  file->add_u32("clip.vision.preproc_image_size", c.longest_edge);
  file->add_u32("clip.vision.preproc_min_tiles", c.min_tiles);
  file->add_u32("clip.vision.preproc_max_tiles", c.max_tiles);
  file->add_tensor("v.patch_embd.bias", WeightFormat::kF32, {c.width});
  tensors->norm("", "v.post_ln", c.width, true);
  tensors->matrix("", "mm.1", c.projector_width, c.joined_width(), true);
  tensors->matrix("", "mm.2", c.output_width, c.projector_width, true);
}

constexpr std::string_view kTokens[] = {"<|startoftext|>", "<image>", "<|image_start|>", "<|image_end|>",
                                        "<|img_thumbnail|>"};

constexpr int32_t kAttentionOf16[] = {2, 5, 8, 10, 12, 14}, kAttentionOf30[] = {2, 5, 9, 13, 17, 21, 24, 27};

struct TextSize {
  int32_t layers, width, query_heads, mlp_width;
  int32_t vocabulary = 65536;
  float rope_base = 1e6f;
};
constexpr TextSize k450m = {16, 1024, 16, 4608}, k1b6 = {16, 2048, 32, 8192}, k3b = {30, 2048, 32, 10752},
                   k3bOf2026 = {30, 2048, 32, 10752, 128000, 1e7f};

constexpr TextConfig lfm2_text(const TextSize& t) {
  return {.architecture = find_text_architecture("lfm2"),
          .layer_count = t.layers,
          .width = t.width,
          .query_heads = t.query_heads,
          .kv_heads = 8,
          .head_dim = 64,
          .mlp_width = t.mlp_width,
          .vocabulary = t.vocabulary,
          .context_length = 128000,
          .rope = {.base = t.rope_base},
          .local = {
              .window = 3,
              .head_dim = 64,
              .convolutions = t.layers == 16 ? LayerSet::all_but(kAttentionOf16) : LayerSet::all_but(kAttentionOf30)}};
}

struct TowerSize {
  int32_t width, mlp_width, layers, heads;
};
constexpr TowerSize kBase = {768, 3072, 12, 12}, kSo400m = {1152, 4304, 27, 16};

constexpr VisionConfig siglip2(const TowerSize& t, int32_t text_width) {
  return {.family = &kLfm2Family.vision,
          .image_size = 256,
          .patch_size = 16,
          .width = t.width,
          .mlp_width = t.mlp_width,
          .layer_count = t.layers,
          .heads = t.heads,
          .any_size = true,
          .position_side = 16,
          .min_pixels = kLeastRows * 32 * 32,
          .max_pixels = kMostRows * 32 * 32,
          .usual_rows = kMostRows,
          .scale_factor = 2,
          .projector_width = 2048,
          .output_width = text_width,
          .longest_edge = kTileSide,
          .min_tiles = kLeastTiles,
          .max_tiles = kMostTiles,
          .image_mean = {0.5f, 0.5f, 0.5f},
          .image_std = {0.5f, 0.5f, 0.5f}};
}

constexpr ModelShape lfm2_shape(const char* name, const char* published, const TextSize& text, const TowerSize& tower) {
  return {.name = name,
          .published = published,
          .text = lfm2_text(text),
          .tied = true,
          .vision = siglip2(tower, text.width)};
}

// Values from config.json of the published models.
constexpr ModelShape kShapes[] = {
    lfm2_shape("LFM2-VL-3B", "LiquidAI/LFM2-VL-3B", k3b, kSo400m),
    lfm2_shape("LFM2.5-VL-450M", "LiquidAI/LFM2.5-VL-450M", k450m, kBase),
    lfm2_shape("LFM2.5-VL-1.6B", "LiquidAI/LFM2.5-VL-1.6B", k1b6, kSo400m),
    lfm2_shape("LFM2.5-VL-3B", "LiquidAI/LFM2.5-VL-3B", k3bOf2026, kSo400m),
};

}  // namespace

const Family kLfm2Family = {.name = "LFM2-VL",
                            .vision = {.projector = "lfm2",
                                       .tower = &kTower,
                                       .read = read_lfm2,
                                       .bind = bind_lfm2,
                                       .views = &kViews,
                                       .output_width_from = "the height of tensor 'mm.2.weight'"},
                            .describe = describe_lfm2,
                            .describe_layer = describe_plain_layer,
                            .picture_tokens = kTokens,
                            .named_tiles = kMostTiles,
                            .tile_token = "<|img_row_%d_col_%d|>",
                            .shapes = kShapes};

}  // namespace ocellus

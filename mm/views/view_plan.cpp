#include "mm/views/view_plan.h"

#include <algorithm>
#include <cmath>

#include "platform/arena.h"

namespace ocellus {
namespace {

Status check_tiled_sizes(const PreprocessConfig& config) {
  const auto is_tiled = [&](int32_t side) {
    return side > 0 && side % config.image_size == 0 && side / config.image_size <= kMaxTilesPerSide;
  };
  for (int32_t i = 0; i < config.tiled_size_count; ++i) {
    const Size size = config.tiled_sizes[i];
    if (!is_tiled(size.width) || !is_tiled(size.height))
      return OCELLUS_FAIL(Code::kUnsupported,
                          "clip.vision.image_grid_pinpoints names %d x %d pixels: both must be multiples of %d up to "
                          "%d of them",
                          size.width, size.height, config.image_size, kMaxTilesPerSide);
  }
  return {};
}

/// Returns the largest integer whose square is at most `value`, or one more.
int64_t root_bound(int64_t value) { return static_cast<int64_t>(std::sqrt(static_cast<double>(value))) + 1; }

/// Scratch besides the rows of a window: weights, their places, the sums of a row and the output row.
int64_t resize_tables_bytes(int64_t source, int64_t target) {
  const int64_t longest = std::max(source, target);
  return 4 * (6 * longest + 3 * target) + 8 * target + 12 * source + (12 + 3) * longest + 3 * target + 10 * 16;
}

}  // namespace

Status check_preprocess(const PreprocessConfig& config) {
  if (config.image_size < 1 || config.image_size > 4096) {
    return OCELLUS_FAIL(Code::kUnsupported,
                        "the projector file asks for views of %d pixels: clip.vision.image_size must be 1..4096",
                        config.image_size);
  }
  const int64_t most_side = int64_t{kMaxTilesPerSide} * config.image_size;
  if (config.longest_edge < 0 || config.longest_edge > std::min<int64_t>(65535, most_side)) {
    return OCELLUS_FAIL(
        Code::kUnsupported,
        "the projector file asks for tiled images of %d pixels a side: clip.vision.preproc_image_size must be 0..%d",
        config.longest_edge, kMaxTilesPerSide * config.image_size);
  }
  OCELLUS_TRY(check_tiled_sizes(config));
  for (int c = 0; c < 3; ++c) {
    if (!std::isfinite(config.mean[c]) || !std::isfinite(config.std[c]) || !(config.std[c] > 0)) {
      return OCELLUS_FAIL(Code::kUnsupported,
                          "the projector file normalises with mean %g and standard deviation %g: both must be finite, "
                          "the second positive",
                          static_cast<double>(config.mean[c]), static_cast<double>(config.std[c]));
    }
  }
  if (config.max_tiles < 0)
    return OCELLUS_FAIL(Code::kBadArgument, "max_tiles is %d: it must be 0 or more", config.max_tiles);
  return {};
}

PreprocessConfig of_overview(const PreprocessConfig& config) {
  PreprocessConfig changed = config;
  if (config.rules->drop_tiles != nullptr) config.rules->drop_tiles(&changed);
  return changed;
}

ViewBounds view_bounds(const PreprocessConfig& config, const ImageLimits& limits) {
  ViewBounds bounds = config.rules->bounds(config, limits);
  if (config.row_side == 0) bounds.view_pixels = int64_t{config.image_size} * config.image_size;
  return bounds;
}

int32_t max_view_count(const PreprocessConfig& config) { return view_bounds(config, {}).tiles + 1; }

int64_t max_row_count(const PreprocessConfig& config) {
  if (config.row_side == 0 || config.longest_edge > 0) return view_bounds(config, {}).rows;
  return config.planned_rows > 0 ? std::min(config.planned_rows, config.view_rows) : config.view_rows;
}

Status plan_views(const PreprocessConfig& config, int32_t width, int32_t height, ViewPlan* plan) {
  OCELLUS_TRY(check_preprocess(config));
  if (width < 1 || height < 1 || width > 65535 || height > 65535) {
    return OCELLUS_FAIL(Code::kBadImage, "the picture is %d x %d pixels: both sides must be 1..65535", width, height);
  }
  *plan = ViewPlan();
  plan->rules = config.rules;
  plan->source = {width, height};
  plan->view_rows = plan->view_positions = config.view_rows;
  config.rules->plan(config, plan);
  return {};
}

int32_t line_count(int32_t view_rows) { return static_cast<int32_t>(std::sqrt(static_cast<double>(view_rows)) + 0.5); }

int64_t ViewPlan::row_count() const {
  return view_rows + (rules->has_map ? map.rows() : int64_t{tile_count()} * rows_of(first_tile()));
}

int64_t ViewPlan::position_count() const {
  return rules->has_map ? row_count() : view_positions + int64_t{tile_count()} * positions_of(first_tile());
}

int32_t ViewPlan::rows_of(int32_t index) const {
  return index == overview_index() || rows_per_tile == 0 ? view_rows : rows_per_tile;
}

int32_t ViewPlan::positions_of(int32_t index) const {
  return index == overview_index() || rows_per_tile == 0 ? view_positions : rows_per_tile;
}

RowPlace ViewPlan::row_place(int32_t view_index) const {
  if (rules->has_lines) return {.stride = map.cols + 1, .lines = map.lines, .cols = map.cols, .from_stride = map.cols};
  if (!rules->has_map || view_index == overview_index()) return whole_view(rows_of(view_index));
  const int32_t side = line_count(view_rows);
  const int32_t tile = view_index - first_tile(), top = tile / tile_cols * side, left = tile % tile_cols * side;
  const int32_t first_line = std::max(top, map.top), first_col = std::max(left, map.left);
  return {.first = int64_t{first_line - map.top} * (map.cols + 1) + first_col - map.left,
          .stride = map.cols + 1,
          .lines = std::min(top + side, map.top + map.lines) - first_line,
          .cols = std::min(left + side, map.left + map.cols) - first_col,
          .from = (first_line - top) * side + first_col - left,
          .from_stride = side};
}

// The Lanczos window covers 6 * source / target + 3 pixels. The window of a side that is truncated to 4 pixels or more
// is at most a quarter longer; for a shorter side the source has no more than 4 * source / target rows or columns. The
// other filters' windows are shorter.
int64_t resize_bound_bytes(int64_t source, int64_t least, int64_t most) {
  const int64_t window = 8 * (source / least + 1) + 3;
  const int64_t rows = std::min<int64_t>(window, 4 * PillowResize::kMaxOverlap);
  return aligned_bytes(resize_tables_bytes(source, most) + 3 * std::max(source, most) * rows +
                       (4 * window + 8) * PillowResize::kMaxOverlap);
}

// The height of a wide picture is at most the root of its pixels; the new width of a tall one is in the ratio of the
// sides, at most 3 more.
int64_t narrowed_pixels(const ImageLimits& limits, int64_t longest) {
  return root_bound(limits.max_pixels) * longest + int64_t{3} * limits.max_side;
}

}  // namespace ocellus

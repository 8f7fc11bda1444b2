#include "runtime/models/qwen_views.h"

#include <algorithm>
#include <cmath>

#include "mm/views/smart_resize.h"

namespace ocellus {
namespace {

SmartResize sizes_of(const PreprocessConfig& config) {
  const int64_t area = int64_t{config.row_side} * config.row_side;
  return {.factor = config.row_side, .min_pixels = config.min_pixels, .max_pixels = config.view_rows * area};
}

/// A row's line and column are its position, so that the longer side's rows are the positions of all.
void set_size(const PreprocessConfig& config, Size size, ViewPlan* plan) {
  const int32_t lines = size.height / config.row_side, cols = size.width / config.row_side;
  plan->overview = Canvas::stretched(size, Filter::kBicubic);
  plan->view_rows = lines * cols;
  plan->view_positions = std::max(lines, cols);
  plan->view_cols = cols;
}

/// A picture is enlarged if it is less than a row wide or high. Products and quotients stand in the order of the
/// published code.
void plan_enlarged(const PreprocessConfig& config, int64_t min_pixels, ViewPlan* plan) {
  const double side = config.row_side;
  const auto [width, height] = plan->source;
  Size size = plan->source;
  if (width < config.row_side || height < config.row_side) {
    const double scale = std::max(side / height, side / width);
    size = {static_cast<int32_t>(width * scale), static_cast<int32_t>(height * scale)};
  }
  SmartResize sizes = sizes_of(config);
  sizes.min_pixels = min_pixels;
  set_size(config, smart_size(sizes, size), plan);
}

/// Maximum rows of a picture within the limits: its sides are rounded up by half a row at most, and the sides of a
/// small one, which is enlarged, by a row. `narrow`: rows of one that is enlarged to a row's width.
int64_t most_rows(const PreprocessConfig& config, const ImageLimits& limits, double narrow) {
  const double side = config.row_side, root = std::sqrt(limits.max_aspect), stretch = root + 1 / root;
  const double pixels = static_cast<double>(limits.max_pixels) / (side * side);
  const double sides = std::min(static_cast<double>(max_side_sum(limits)) / side, std::sqrt(pixels) * stretch);
  const double least = static_cast<double>(config.min_pixels) / (side * side);
  const double rounded = pixels + sides / 2 + 0.25, enlarged = least + std::sqrt(least) * stretch + 1;
  return std::min(max_row_count(config), static_cast<int64_t>(std::max({rounded, enlarged, narrow})) + 1);
}

/// Maximum of the longer side, in rows, of a picture with this number of rows.
int64_t most_positions(int64_t rows, int32_t aspect) {
  const double rounding = aspect / 2.0 + 1;
  return std::min(rows, static_cast<int64_t>(std::sqrt(static_cast<double>(aspect * rows)) + rounding));
}

/// A frame may be reduced to fewer rows than a picture.
ViewBounds bound_views(const PreprocessConfig& config, const ImageLimits& limits, bool enlarges) {
  ViewBounds bounds;
  bounds.rows = most_rows(config, limits, enlarges ? limits.max_aspect : 0);
  bounds.positions = most_positions(bounds.rows, limits.max_aspect);
  bound_resizes(config.row_side, config.clip_rows > 0 ? std::min(config.clip_rows, config.view_rows) : config.view_rows,
                limits, &bounds);
  return bounds;
}

}  // namespace

void plan_qwen_size(const PreprocessConfig& config, Size size, ViewPlan* plan) {
  set_size(config, smart_size(sizes_of(config), size), plan);
}

void plan_qwen_view(const PreprocessConfig& config, ViewPlan* plan) { plan_qwen_size(config, plan->source, plan); }

void plan_enlarged_view(const PreprocessConfig& config, ViewPlan* plan) {
  plan_enlarged(config, config.min_pixels, plan);
}

void plan_qwen_frame(const PreprocessConfig& config, ViewPlan* plan) {
  plan_enlarged(config, int64_t{config.row_side} * config.row_side, plan);
}

ViewBounds bound_qwen_views(const PreprocessConfig& config, const ImageLimits& limits) {
  return bound_views(config, limits, config.clip_rows > 0);
}

ViewBounds bound_enlarged_views(const PreprocessConfig& config, const ImageLimits& limits) {
  return bound_views(config, limits, true);
}

int32_t count_sampled(int32_t frame_count, double duration, int32_t most) {
  constexpr double kRate = 2;
  const double wanted = std::max<double>(std::floor(kRate * duration), kLeastQwenFrames);
  return static_cast<int32_t>(std::min<double>(wanted, std::min({most, kMostQwenFrames, frame_count})));
}

int32_t sample_evenly(int32_t frame_count, double duration, int32_t most, int32_t* indices) {
  const int32_t count = count_sampled(frame_count, duration, most);
  const double step = count > 1 ? static_cast<double>(frame_count - 1) / (count - 1) : 0;
  for (int32_t i = 0; i < count; ++i)
    indices[i] = i > 0 && i == count - 1 ? frame_count - 1 : static_cast<int32_t>(std::nearbyint(i * step));
  return count;
}

}  // namespace ocellus

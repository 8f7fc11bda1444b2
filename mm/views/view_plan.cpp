#include <algorithm>
#include <cmath>

#include "mm/views/preprocess.h"

namespace ocellus {
namespace {

// What Hugging Face does to the longest side when there is no tiling: it becomes the view.
int32_t longest_side(const PreprocessConfig& config) {
  const int32_t longest = config.longest_edge == 0 ? config.image_size : config.longest_edge;
  return config.flavour == ResizeFlavour::kHuggingFace ? std::min(longest, kHuggingFaceMaxSide) : longest;
}

int32_t tiles_per_side(const PreprocessConfig& config) {
  return (longest_side(config) + config.image_size - 1) / config.image_size;
}

// llama.cpp computes these sizes in float. One difference: rounding may push it just past a multiple of image_size and
// give a row or column of tiles too many; we stop at tiles_per_side.
void plan_llama_cpp(const PreprocessConfig& config, ViewPlan* plan) {
  const auto width = static_cast<float>(plan->source.width), height = static_cast<float>(plan->source.height);
  const auto longest = static_cast<float>(config.longest_edge), tile = static_cast<float>(config.image_size);
  const float shrink = std::min(longest / width, longest / height);
  const int32_t most = tiles_per_side(config);
  plan->tile_cols = std::min(static_cast<int32_t>(std::ceil(width * shrink / tile)), most);
  plan->tile_rows = std::min(static_cast<int32_t>(std::ceil(height * shrink / tile)), most);
  plan->grid = {plan->tile_cols * config.image_size, plan->tile_rows * config.image_size};
  plan->inner = plan->grid;
  if (plan->grid == plan->source) return;
  const float scale =
      std::min(static_cast<float>(plan->grid.width) / width, static_cast<float>(plan->grid.height) / height);
  plan->inner.width = std::min(static_cast<int32_t>(std::ceil(width * scale)), plan->grid.width);
  plan->inner.height = std::min(static_cast<int32_t>(std::ceil(height * scale)), plan->grid.height);
  plan->inner_left = (plan->grid.width - plan->inner.width) / 2;
  plan->inner_top = (plan->grid.height - plan->inner.height) / 2;
}

// The longer side becomes `longest`; the other keeps the ratio, truncated, and made even if asked.
Size scale_to_longest(Size size, int32_t longest, bool make_even) {
  const double ratio = static_cast<double>(size.width) / size.height;
  const bool wide = size.width >= size.height;
  int32_t other = static_cast<int32_t>(wide ? longest / ratio : longest * ratio);
  if (make_even && other % 2 != 0) ++other;
  other = std::max(other, 1);
  return wide ? Size{longest, other} : Size{other, longest};
}

// The longer side goes up to a multiple of the tile, the other follows the ratio before it does the same.
Size round_up_to_tiles(Size size, int32_t tile, int32_t most_tiles) {
  const auto round_up = [&](int32_t side) { return std::min((side + tile - 1) / tile, most_tiles) * tile; };
  const double ratio = static_cast<double>(size.width) / size.height;
  if (size.width >= size.height) {
    const int32_t width = round_up(size.width);
    return {width, round_up(static_cast<int32_t>(width / ratio))};
  }
  const int32_t height = round_up(size.height);
  return {round_up(static_cast<int32_t>(height * ratio)), height};
}

void plan_hugging_face(const PreprocessConfig& config, ViewPlan* plan) {
  const int32_t wanted = config.longest_edge == 0 ? config.image_size : config.longest_edge;
  plan->step = scale_to_longest(plan->source, wanted, true);
  if (std::max(plan->step.width, plan->step.height) > kHuggingFaceMaxSide) {
    plan->step = scale_to_longest(plan->step, kHuggingFaceMaxSide, false);
  }
  if (config.longest_edge == 0) return;
  const Size grid = round_up_to_tiles(plan->step, config.image_size, tiles_per_side(config));
  if (grid.width <= config.image_size && grid.height <= config.image_size) return;
  plan->grid = grid;
  plan->tile_cols = grid.width / config.image_size;
  plan->tile_rows = grid.height / config.image_size;
}

void plan_llava(ViewPlan* plan) {
  plan->square = std::max(plan->source.width, plan->source.height);
  plan->inner_left = (plan->square - plan->source.width) / 2;
  plan->inner_top = (plan->square - plan->source.height) / 2;
}

}  // namespace

ViewMarks view_marks(ResizeFlavour flavour) {
  return flavour == ResizeFlavour::kLlava ? ViewMarks::kNone : ViewMarks::kIdefics3;
}

Status check_preprocess(const PreprocessConfig& config) {
  if (config.image_size < 1 || config.image_size > 4096) {
    return OCELLUS_FAIL(Code::kUnsupported,
                        "the projector file asks for views of %d pixels: clip.vision.image_size must be 1..4096",
                        config.image_size);
  }
  if (config.longest_edge < 0 || config.longest_edge > 65535 || tiles_per_side(config) > kMaxTilesPerSide) {
    return OCELLUS_FAIL(
        Code::kUnsupported,
        "the projector file asks for tiled images of %d pixels a side: clip.vision.preproc_image_size must be 0..%d",
        config.longest_edge, kMaxTilesPerSide * config.image_size);
  }
  for (int c = 0; c < 3; ++c) {
    if (!std::isfinite(config.mean[c]) || !std::isfinite(config.std[c]) || !(config.std[c] > 0)) {
      return OCELLUS_FAIL(Code::kUnsupported,
                          "the projector file normalises with mean %g and standard deviation %g: both must be finite, "
                          "the second positive",
                          static_cast<double>(config.mean[c]), static_cast<double>(config.std[c]));
    }
  }
  if (config.max_views < 0)
    return OCELLUS_FAIL(Code::kBadArgument, "max_views is %d: it must be 0 or more", config.max_views);
  return {};
}

int32_t max_view_count(const PreprocessConfig& config) {
  const int32_t side = config.longest_edge == 0 ? 0 : tiles_per_side(config);
  // Hugging Face takes a single tile for the overview.
  const bool tiles = side > 1 || (side == 1 && config.flavour == ResizeFlavour::kLlamaCpp);
  const int32_t views = tiles ? side * side + 1 : 1;
  return config.max_views == 0 ? views : std::min(views, config.max_views);
}

Status plan_views(const PreprocessConfig& config, int32_t width, int32_t height, ViewPlan* plan) {
  OCELLUS_TRY(check_preprocess(config));
  if (width < 1 || height < 1 || width > 65535 || height > 65535) {
    return OCELLUS_FAIL(Code::kBadImage, "the picture is %d x %d pixels: both sides must be 1..65535", width, height);
  }
  *plan = ViewPlan();
  plan->source = {width, height};
  plan->marks = view_marks(config.flavour);
  switch (config.flavour) {
    case ResizeFlavour::kLlamaCpp:
      if (config.longest_edge != 0) plan_llama_cpp(config, plan);
      break;
    case ResizeFlavour::kHuggingFace: plan_hugging_face(config, plan); break;
    case ResizeFlavour::kLlava: plan_llava(plan); break;
  }
  plan->view_count = plan->tile_rows * plan->tile_cols + 1;
  if (config.max_views != 0 && plan->view_count > config.max_views) {
    return OCELLUS_FAIL(Code::kFull,
                        "the %d x %d picture is cut into %d views, but %d were planned: plan for more views or crop it",
                        width, height, plan->view_count, config.max_views);
  }
  return {};
}

}  // namespace ocellus

// Preprocessing: converts a picture of any size to a few views, normalised.
//
//   plan_views -> ViewMaker (mm/views/view_maker.h), once per picture, while its rows arrive -> render_view, once per
//   view
#pragma once

#include <cstdint>

#include "mm/pictures/rgb_image.h"
#include "mm/views/view_plan.h"
#include "platform/status.h"
#include "platform/views.h"

namespace ocellus {

/// Scratch of a picture within the limits, from file or frame to its views: see ViewMaker and
/// decode_rows_scratch_bytes.
int64_t image_scratch_bytes(const PreprocessConfig& config, const ImageLimits& limits);

/// A picture ready for rendering: valid as long as the scratch that holds it.
struct PreparedViews {
  ViewPlan plan;
  RgbImage tiles;  // the tiled image; none without tiles
  RgbImage overview;
};

Normalisation normalisation_of(const PreprocessConfig& config);

/// Writes one view as planar floats (x / 255 - mean) / std: out [3 * height, width] of the plan's views, rows of red,
/// then green, then blue. Views may be rendered in any order, one at a time.
Status render_view(const PreprocessConfig& config, const PreparedViews& prepared, int32_t view_index,
                   DeviceView<float> out);

}  // namespace ocellus

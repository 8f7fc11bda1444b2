// The one view of a LLaVA-1.5 picture, on the CPU: the picture in the middle of a square of the mean colour, resized
// as Pillow's bicubic filter does it.
#pragma once

#include "mm/plane_writer.h"

namespace ocellus {

/// The margins that make the picture of a plan a square; `columns`: those to its left and right.
Margins square_margins(const PreprocessConfig& config, const ViewPlan& plan, bool columns);

/// Scratch of render_llava for any picture within the limits: a row of the square and a few of the view.
int64_t llava_scratch_bytes(const PreprocessConfig& config, const ImageLimits& limits);

/// kFull if the scratch is too small.
Status render_llava(const PreprocessConfig& config, const PreparedViews& prepared, const PlaneWriter& writer);

}  // namespace ocellus

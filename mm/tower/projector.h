// The projector: rows of the vision tower to rows of the language model.
#pragma once

#include "mm/tower/vision_tower.h"

namespace ocellus {

/// Joins scale x scale neighbouring patches of each view (pixel shuffle), without the class row; normalises the joined
/// rows if the model has a norm for them; then applies one linear map or two, with GELU (exact) between them. Reads
/// scratch.hidden [views * R, D]; writes out [views * tokens_per_view, output_width], which may be scratch.projected;
/// uses scratch.joined and scratch.wide.
Status project_views(const VisionModel& model, int64_t views, const VisionScratch& scratch, DeviceView<float> out,
                     Queue& queue);

}  // namespace ocellus

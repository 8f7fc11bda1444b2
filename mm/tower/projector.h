// Projectors: rows of the vision tower to rows of the language model. One function per kind.
#pragma once

#include "mm/tower/vision_tower.h"

namespace ocellus {

/// Idefics3: joins scale x scale neighbouring patches (pixel shuffle), then one linear map without bias.
/// Reads scratch.hidden [views * R, D]; writes out [views * tokens_per_view, output_width], which may be
/// scratch.projected; uses scratch.joined.
Status project_idefics3(const VisionModel& model, int64_t views, const VisionScratch& scratch, DeviceView<float> out,
                        Queue& queue);

/// LLaVA-1.5: two linear maps with biases, GELU (exact, as PyTorch's) between them, for every row but the class rows.
/// Reads and writes the same; uses scratch.joined and scratch.wide.
Status project_mlp(const VisionModel& model, int64_t views, const VisionScratch& scratch, DeviceView<float> out,
                   Queue& queue);

/// The projector the model asks for.
Status project_views(const VisionModel& model, int64_t views, const VisionScratch& scratch, DeviceView<float> out,
                     Queue& queue);

}  // namespace ocellus

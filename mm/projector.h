// Projectors: rows of the vision tower to rows of the language model. One function per kind.
#pragma once

#include "mm/vision_tower.h"

namespace ocellus {

/// Idefics3: joins scale x scale neighbouring patches (pixel shuffle), then one linear map without bias.
/// Reads scratch.hidden [P, D]; writes out [tokens_per_view, output_width]; uses scratch.normed_or_mixed.
Status project_idefics3(const VisionModel& model, const VisionScratch& scratch, DeviceView<float> out, Queue& queue);

/// The projector the model asks for.
Status project_view(const VisionModel& model, const VisionScratch& scratch, DeviceView<float> out, Queue& queue);

}  // namespace ocellus

// The projector: rows of the vision tower to rows of the language model.
#pragma once

#include "mm/tower/vision_tower.h"

namespace ocellus {

/// Joins scale x scale neighbouring patches of each view (pixel shuffle, or their mean), without the class row;
/// normalises the joined rows if the projector has a norm for them; then applies one linear map or two, with GELU
/// (exact) between them. Reads scratch.hidden [views * R, D]; writes out [tokens, output_width]; uses scratch.joined
/// and scratch.wide.
void project_rows(const VisionModel& model, const Projector& projector, const ViewBatch& batch,
                  const VisionScratch& scratch, DeviceView<float> out, Queue& queue);

/// The two steps of project_rows: the joining, into scratch.joined, and what follows it, for as many joined rows as out
/// has.
void join_rows(const VisionModel& model, const Projector& projector, const ViewBatch& batch,
               const VisionScratch& scratch, Queue& queue);
void project_joined(const VisionModel& model, const Projector& projector, const VisionScratch& scratch,
                    DeviceView<float> out, Queue& queue);

/// Writes the first columns of out [tokens, row_width], which may be scratch.projected; the next columns are those of
/// DeepStack, which encode_views writes, output_width for each of its layers.
Status project_views(const VisionModel& model, const ViewBatch& batch, const VisionScratch& scratch,
                     DeviceView<float> out, Queue& queue);

}  // namespace ocellus

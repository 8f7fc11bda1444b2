// Notes about the rows that a tower gives to the language model: how much attention they receive in one of its layers,
// and their keys there, for rules that choose among rows (VisionZip). A class row's attention, if there is one, else
// that of all rows; means over the heads, and over the patches that are joined to a row.
#pragma once

#include "mm/tower/tower_rows.h"

namespace ocellus {

/// Scratch for the queries of `block` rows at a time.
int64_t note_scratch_bytes(const VisionConfig& config, int64_t rows_per_view, int64_t block,
                           const DeviceTraits& device);

/// Called with the queries of rows `first` and on of a pass, in order, and the keys of all. Writes scratch.notes of all
/// views when the last queries have come, if notes are wanted and the layer is the one. Uses scratch.scores.
void note_attention(const PassMemory& pass, int32_t layer, int64_t first, ActivationView query,
                    const KvLayerRows& rows);

}  // namespace ocellus

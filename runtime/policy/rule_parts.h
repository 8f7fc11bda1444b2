// What rules of eviction have in common: the arguments of the ops that they all use.
#pragma once

#include "kernels/cache/merge_kv.h"
#include "kernels/cache/score_rows.h"
#include "runtime/policy/eviction_rule.h"

namespace ocellus {

/// The attention that rows get from the chunk's observed queries.
ScoreRowsArgs scoring(const LayerToCompress& layer);

/// The selection of the best rows by the scores in the scratch.
SelectSlotsArgs selection(const LayerToCompress& layer, SelectStage stage);

/// The same where only an image's rows compete: text takes no part, so all of it is let through here and stored in its
/// pages, and the image keeps its own number.
SelectSlotsArgs selection_of_image(const LayerToCompress& layer);

/// The merging of what a selection has dropped, for rows first .. end - 1.
MergeKvArgs merging(const LayerToCompress& layer, const SelectSlotsArgs& kept, int64_t first, int64_t end);

/// A number for every row and head, [G, T], in memory that scoring is done with.
DeviceView<int32_t> row_numbers(const LayerToCompress& layer);

/// The index-th matrix [G, T] of numbers for every row and head at the beginning of the rule's scratch, and its bytes.
DeviceView<float> rule_matrix(const LayerToCompress& layer, int64_t index);
int64_t rule_matrix_bytes(const TextConfig& config, int64_t rows);
/// What lies behind the first `count` of them.
DeviceView<std::byte> behind_matrices(const LayerToCompress& layer, int64_t count);

}  // namespace ocellus

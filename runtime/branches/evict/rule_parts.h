// Shared by the eviction rules: arguments of the ops that they all use.
#pragma once

#include "kernels/cache/merge_kv.h"
#include "kernels/cache/score_rows.h"
#include "runtime/policy/row_rule.h"

namespace ocellus {

/// Scores rows by the attention of the chunk's observed queries.
ScoreRowsArgs scoring(const LayerToCompress& layer);

/// Selects if only an image's rows compete: all text passes and is stored in its pages, and the image keeps a number of
/// its own.
SelectSlotsArgs selection_of_image(const LayerToCompress& layer);

/// Merges the rows first .. end - 1 that a selection has dropped.
MergeKvArgs merging(const LayerToCompress& layer, const SelectSlotsArgs& selected, int64_t first, int64_t end);

/// Enters the rows of a layer that stay into the ledger of answers, which drop some of them.
void note_kept(const LayerToCompress& layer, Queue& queue);

/// An integer for every row and head, [G, T], in memory that scoring no longer needs.
DeviceView<int32_t> row_numbers(const LayerToCompress& layer);

/// The index-th matrix [G, T] of numbers at the beginning of the rule's scratch, and its bytes.
DeviceView<float> rule_matrix(const LayerToCompress& layer, int64_t index);
int64_t rule_matrix_bytes(const TextConfig& config, int64_t rows);
/// The memory after the first `count` matrices.
DeviceView<std::byte> behind_matrices(const LayerToCompress& layer, int64_t count);

}  // namespace ocellus

// The rules of the branch that have files of their own.
#pragma once

#include "runtime/policy/row_rule.h"

namespace ocellus {

/// CSP: ranks text and pictures by the attention of their own modality and of the other.
const RowRule& csp_rule();

/// KeyDiff: keeps the rows whose keys are unlike the others.
const RowRule& keydiff_rule();

// Late rules: budgets by layer are known only after all layers.

/// VL-Cache (arXiv 2410.23317; no public code). The rows after the last image observe. A layer's share of the slots is
/// proportional to the density of their attention; it keeps the best rows by column sums and, for a tenth of its slots,
/// the most recent.
const RowRule& vl_cache_rule();

/// MEDA as in its public code: all rows observe, a layer's share is proportional to e to the power of the entropy of
/// its attention per row. Half of it are the best rows by column sums, half the most recent, but no fewer than there is
/// text; dropped rows are merged into the most similar kept ones, to the average. The code adds the first decode step's
/// attention to the sums, ours are the prompt's.
const RowRule& meda_rule();

/// Returns what stays in a layer that may keep `share` of the chunk's rows.
Survivors survivors_of_layer(const RowRule& late, const CachePolicy& policy, const ChunkFacts& facts, double share);

enum class LayerShares : uint8_t {
  kDensity,  // proportional to the facts (VL-Cache, arXiv 2410.23317): denser attention gets more
  kEntropy   // proportional to e to the power of the facts (MEDA's public code): wider attention gets more
};

/// Minimum share of a layer in both methods; the maximum is 1. Clipped shares are not redistributed, as in their code:
/// the mean of the shares then differs from `keep`.
inline constexpr double kLeastLayerShare = 0.01;

/// shares[l] = clip(weight_l / sum of weights * layers * keep, kLeastLayerShare, 1), with weights from facts[l] by
/// `how`. Facts that are not numbers, or whose sum is 0, give every layer `keep`.
void share_layers(LayerShares how, const float* facts, int32_t layers, double keep, double* shares);

}  // namespace ocellus

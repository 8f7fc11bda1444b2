// Budgets by layer: shares of the kept slots, from the attention observed in all layers. Plain arithmetic on the host.
#pragma once

#include <cstdint>

namespace ocellus {

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

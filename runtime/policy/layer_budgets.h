// Budgets by layer: how the layers of a model share the slots that stay, by what was seen of the attention in all of
// them. Plain arithmetic on the host.
#pragma once

#include <cstdint>

namespace ocellus {

enum class LayerShares : uint8_t {
  kDensity,  // in proportion to the facts (VL-Cache, arXiv 2410.23317): the denser a layer's attention, the more
  kEntropy   // in proportion to e to the power of the facts (MEDA's public code): the wider it spreads, the more
};

/// The least share of a layer, and the most is 1, in both methods. What is cut off or added there is not shared out
/// again, as in their code: the mean of the shares then differs from `keep`.
inline constexpr double kLeastLayerShare = 0.01;

/// shares[l] = clip(weight_l / sum of weights * layers * keep, kLeastLayerShare, 1), the weights as `how` makes them of
/// facts[l]. Facts that are not numbers, or add up to nothing, give every layer `keep`.
void share_layers(LayerShares how, const float* facts, int32_t layers, double keep, double* shares);

}  // namespace ocellus

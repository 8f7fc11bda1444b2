#include "runtime/branches/evict/layer_budgets.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ocellus {

void share_layers(LayerShares how, const float* facts, int32_t layers, double keep, double* shares) {
  if (layers <= 0) return;
  const auto largest = static_cast<double>(*std::max_element(facts, facts + layers));
  for (int32_t l = 0; l < layers; ++l) {
    const auto fact = static_cast<double>(facts[l]);
    shares[l] = how == LayerShares::kEntropy ? std::exp(fact - largest) : fact;
  }
  const double sum = std::accumulate(shares, shares + layers, 0.0);
  const bool sharable = std::isfinite(sum) && sum > 0;
  for (int32_t l = 0; l < layers; ++l) {
    const double share = sharable ? shares[l] / sum * layers * keep : keep;
    shares[l] = std::clamp(share, kLeastLayerShare, 1.0);
  }
}

}  // namespace ocellus

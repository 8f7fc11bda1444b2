#include "tests/support/reference.h"

#include <algorithm>

namespace ocellus::test {

std::vector<double> attend(const float* query, const std::vector<Slot>& slots, int64_t dim) {
  std::vector<double> scores;
  for (const Slot& slot : slots) {
    double score = 0;
    for (int64_t e = 0; e < dim; ++e) score += static_cast<double>(query[e]) * half_to_float(slot.key[e]);
    scores.push_back(score / std::sqrt(static_cast<double>(dim)) + slot.bias);
  }
  const double maximum = *std::max_element(scores.begin(), scores.end());
  std::vector<double> out(static_cast<size_t>(dim));
  double sum = 0;
  for (size_t i = 0; i < slots.size(); ++i) {
    const double weight = std::exp(scores[i] - maximum);
    sum += weight;
    for (int64_t e = 0; e < dim; ++e) out[static_cast<size_t>(e)] += weight * half_to_float(slots[i].value[e]);
  }
  for (double& value : out) value /= sum;
  return out;
}

}  // namespace ocellus::test

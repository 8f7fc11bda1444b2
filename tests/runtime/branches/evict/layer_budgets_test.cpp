#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "runtime/branches/evict/rules.h"
#include "tests/support/random.h"

namespace ocellus {
namespace {

std::vector<double> shares_of(LayerShares how, const std::vector<float>& facts, double keep) {
  std::vector<double> shares(facts.size());
  share_layers(how, facts.data(), static_cast<int32_t>(facts.size()), keep, shares.data());
  return shares;
}
double sum_of(const std::vector<double>& shares) { return std::accumulate(shares.begin(), shares.end(), 0.0); }

}  // namespace

TEST_CASE("shares of layers add up to the share of all, in proportion to what was seen") {
  const std::vector<double> dense = shares_of(LayerShares::kDensity, {0.2f, 0.4f, 0.1f, 0.1f}, 0.3);
  CHECK(sum_of(dense) == doctest::Approx(4 * 0.3));
  CHECK(dense[0] == doctest::Approx(0.3));
  CHECK(dense[1] == doctest::Approx(0.6));
  CHECK(dense[3] == doctest::Approx(0.15));
  const std::vector<double> wide = shares_of(LayerShares::kEntropy, {1.0f, 1.0f + std::log(2.0f), 1.0f}, 0.2);
  CHECK(sum_of(wide) == doctest::Approx(3 * 0.2));
  CHECK(wide[1] == doctest::Approx(2 * wide[0]));
  test::Random random(70);
  for (int i = 0; i < 50; ++i) {
    std::vector<float> facts(static_cast<size_t>(random.integer(1, 40)));
    for (float& fact : facts) fact = random.uniform(0.5f, 0.9f);
    for (const LayerShares how : {LayerShares::kDensity, LayerShares::kEntropy}) {
      const std::vector<double> shares = shares_of(how, facts, 0.3);
      CHECK(sum_of(shares) == doctest::Approx(0.3 * static_cast<double>(facts.size())));
      for (size_t l = 1; l < facts.size(); ++l) CHECK((shares[l] > shares[0]) == (facts[l] > facts[0]));
    }
  }
}

TEST_CASE("no layer gets more than all or less than a hundredth, and what is cut off goes to none") {
  const std::vector<double> shares = shares_of(LayerShares::kDensity, {1.0f, 0.0001f, 0.2f}, 0.5);
  CHECK(shares[0] == 1);
  CHECK(shares[1] == kLeastLayerShare);
  CHECK(shares[2] == doctest::Approx(0.2 / 1.2001 * 3 * 0.5));
  const std::vector<double> wide = shares_of(LayerShares::kEntropy, {500.0f, -500.0f, 0.0f}, 0.1);
  CHECK(wide[0] == doctest::Approx(0.3));
  CHECK(wide[1] == kLeastLayerShare);
  CHECK(wide[2] == kLeastLayerShare);
}

TEST_CASE("facts that say nothing share alike") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const std::vector<float>& facts : {std::vector<float>{0, 0, 0}, {nan, 1, 1}, {1, 2, nan}})
    for (const double share : shares_of(LayerShares::kDensity, facts, 0.25)) CHECK(share == 0.25);
  for (const double share : shares_of(LayerShares::kEntropy, {1.0f, nan}, 0.25)) CHECK(share == 0.25);
  CHECK(shares_of(LayerShares::kEntropy, {3.0f}, 0.25)[0] == 0.25);
}

}  // namespace ocellus

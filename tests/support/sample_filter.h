// The sampler's filters by definition, in f64 with every candidate sorted.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

namespace ocellus::test {

/// The filters of the sampler by definition, on all its candidates.
class CandidateFilter {
 public:
  /// The candidates, the most probable first.
  explicit CandidateFilter(const std::vector<float>& logits) {
    for (size_t i = 0; i < logits.size(); ++i)
      if (!std::isnan(logits[i])) order_.emplace_back(-double{logits[i]}, static_cast<int32_t>(i));
    std::sort(order_.begin(), order_.end());
  }
  bool is_sure() const { return sure_; }
  bool has_any() const { return !order_.empty(); }
  double largest() const { return -order_[0].first; }
  int32_t first() const { return order_[0].second; }

  void cut_sigmas(double sigmas) {
    std::vector<double> gaps;
    for (const Item& item : order_)
      if (!std::isinf(item.first)) gaps.push_back(std::min(std::floor(gap(item) * 0x1p20), 0x1p32 - 256) * 0x1p-20);
    double sum = 0, squares = 0;
    for (const double value : gaps) sum += value;
    for (const double value : gaps) squares += std::pow(value - sum / static_cast<double>(gaps.size()), 2);
    const double most = sigmas * std::sqrt(squares / static_cast<double>(gaps.size()));
    // In whichever way it is rounded, the same are dropped.
    const auto dropped = [&](double error) {
      const auto least = static_cast<float>(largest() - most * (1 + error));
      return std::count_if(order_.begin(), order_.end(), [=](const Item& item) { return -item.first < double{least}; });
    };
    sure_ = sure_ && dropped(1e-9) == dropped(-1e-9);
    order_.resize(order_.size() - static_cast<size_t>(dropped(0)));
  }
  void keep(int64_t count) { order_.resize(std::min(order_.size(), static_cast<size_t>(count))); }
  /// Keeps the first candidates whose weights reach `part` of the total; returns the last of them.
  int32_t cut_share(double part, double temperature = 1) {
    const std::vector<double> weights = weigh(order_, largest(), temperature);
    order_.resize(reach(weights, part));
    return order_.back().second;
  }
  void cut_typical(double part) {
    const std::vector<double> all = weigh(order_, largest(), 1);
    double total = 0, gaps = 0;
    for (size_t i = 0; i < all.size(); ++i) total += all[i];
    for (size_t i = 0; i < all.size(); ++i) gaps += all[i] > 0 ? all[i] * gap(order_[i]) : 0;
    const double mean = largest() - gaps / total;
    const auto typical = [&](double centre) { return nearest_to(static_cast<float>(centre), all, part); };
    const auto rounded = [](double x) { return std::abs(x) < 1e9 ? std::nearbyint(x * 0x1p20) * 0x1p-20 : x; };
    const std::vector<Item> kept = typical(rounded(mean));
    for (const double error : {-2e-9, 2e-9})
      if (rounded(mean + error) != rounded(mean)) sure_ = sure_ && typical(rounded(mean + error)) == kept;
    order_ = kept;
  }
  void cut_below(float least) {
    while (-order_.back().first < double{least}) order_.pop_back();
  }

 private:
  using Item = std::pair<double, int32_t>;  // -logit: pairs sort as the tokens should

  double gap(const Item& item) const { return item.first - order_[0].first; }
  static std::vector<double> weigh(const std::vector<Item>& order, double largest, double temperature) {
    std::vector<double> weights;
    for (const Item& item : order) weights.push_back(std::exp((-item.first - largest) / temperature));
    return weights;
  }
  /// Returns the candidates nearest to a logit whose weights, `all` of them, reach `part`; the most probable first.
  std::vector<Item> nearest_to(float centre, const std::vector<double>& all, double part) {
    std::vector<std::pair<Item, size_t>> nearest;
    for (size_t i = 0; i < order_.size(); ++i)
      nearest.push_back({{std::abs(static_cast<float>(-order_[i].first) - centre), order_[i].second}, i});
    std::sort(nearest.begin(), nearest.end());
    std::vector<double> weights;
    for (const auto& [item, place] : nearest) weights.push_back(all[place]);
    nearest.resize(reach(weights, part));
    std::vector<Item> kept;
    for (const auto& [item, place] : nearest) kept.push_back(order_[place]);
    std::sort(kept.begin(), kept.end());
    return kept;
  }
  /// Returns the number of first weights that reach `part` of the total.
  size_t reach(const std::vector<double>& weights, double part) {
    double total = 0, sum = 0;
    for (const double weight : weights) total += weight;
    size_t end = 0;
    while (end < weights.size()) {
      const double before = sum;
      sum += weights[end++];
      if (sum < part * total) continue;
      const double nearest = std::min(sum / total - part, part - before / total);
      // The first token is certain to be reached, however small the part.
      if (nearest < 2e-9 && !(end == 1 && sum / total - part > 2e-9)) sure_ = false;
      break;
    }
    return end;
  }

  std::vector<Item> order_;
  bool sure_ = true;
};

}  // namespace ocellus::test

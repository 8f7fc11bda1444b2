// CSP's choice in one layer, against the method as it is written down, in double precision.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "runtime/branches/evict/rules.h"
#include "tests/support/device.h"
#include "tests/support/random.h"

namespace ocellus {
namespace {

using test::Activations;
using test::Guarded;
using test::Random;

constexpr int64_t kRows = 90, kWindow = 12, kBudget = 25;
constexpr int32_t kHeads = 4, kKvHeads = 2, kDim = 32;

/// Attention to rows from queries of their own modality and of the other, by key/value head.
struct Sums {
  std::vector<double> same = std::vector<double>(kRows), cross = std::vector<double>(kRows);
};

/// A layer of a chunk with text and visual rows, in the window, too.
class CspCase {
 public:
  CspCase(uint64_t seed, float cross, Queue& queue)
      : random_(seed),
        keys_(size_t{kKvHeads * kRows * kDim}),
        is_visual_(kRows),
        queries_(queue, kWindow, kHeads * kDim),
        scores_(kKvHeads, kRows),
        kept_(kKvHeads, kRows),
        counts_(2, kKvHeads),
        kept_counts_(1, kKvHeads) {
    for (Half& half : keys_) half = float_to_half(random_.normal());
    for (size_t row = 0; row < kRows; ++row) is_visual_[row] = (row > 10 && row < 60) || (row > 80 && row % 2 == 0);
    for (int64_t t = 0; t < kWindow; ++t)
      for (int64_t i = 0; i < kHeads * kDim; ++i) queries_.set(t, i, random_.normal());
    config_.query_heads = kHeads;
    config_.kv_heads = kKvHeads;
    config_.head_dim = kDim;
    scratch_.policy.rule = &csp_rule();
    const std::string options = "cross=" + std::to_string(cross);
    REQUIRE(parse_method_options(csp_rule().method(), options, &scratch_.policy.options).ok());
  }

  /// The rows before the window that stay, by key/value head.
  std::vector<std::set<int32_t>> choose(Queue& queue) {
    const RowRule& rule = csp_rule();
    Guarded<std::byte> rule_scratch(1, rule.scratch_bytes(config_, kWindow, kRows, queue.traits()));
    Guarded<std::byte> selection(1, select_slots_scratch_bytes(kRows, kKvHeads, queue.traits()));
    scratch_.is_visual.device = {is_visual_.data(), 1, kRows};
    scratch_.scores = scores_.view();
    scratch_.kept_text = kept_.view();
    scratch_.counts = counts_.view();
    scratch_.rule = rule_scratch.view();
    scratch_.selection = selection.view();
    CompressPlan plan;
    plan.active = plan.lists_rows = true;
    plan.facts = {.rows = kRows, .visual_rows = std::count(is_visual_.begin(), is_visual_.end(), uint8_t{1})};
    plan.survivors = {.window = kWindow, .budget = kBudget};
    plan.observed = kWindow;
    plan.text_counts = kept_counts_.data();
    rule.choose({.config = config_,
                 .plan = plan,
                 .scratch = scratch_,
                 .rows = KvLayerRows::head_major(keys_.data(), nullptr, kKvHeads, kDim, kRows),
                 .queries = queries_.view()},
                queue);
    REQUIRE_MESSAGE(queue.finish().ok(), last_failure().sentence);
    CHECK(rule_scratch.intact());
    std::vector<std::set<int32_t>> chosen;
    for (int64_t g = 0; g < kKvHeads; ++g) {
      CHECK(kept_counts_.at(0, g) == kWindow + kBudget);
      chosen.emplace_back(&kept_.at(g, 0), &kept_.at(g, 0) + kBudget);
    }
    return chosen;
  }

  Sums sums(int64_t kv_head) const {
    Sums out;
    for (int64_t t = 0; t < kWindow; ++t) {
      const int64_t own = kRows - kWindow + t;
      for (int64_t head = kv_head * 2; head < kv_head * 2 + 2; ++head) {
        std::vector<double> weights;
        double sum = 1;  // n-softmax
        for (int64_t row = 0; row <= own; ++row) {
          double dot = 0;
          for (int64_t e = 0; e < kDim; ++e)
            dot += static_cast<double>(queries_.get(t, head * kDim + e)) *
                   static_cast<double>(half_to_float(keys_[static_cast<size_t>((kv_head * kRows + row) * kDim + e)]));
          weights.push_back(std::exp(dot / std::sqrt(kDim)));
          sum += weights.back();
        }
        for (size_t row = 0; row < weights.size(); ++row)
          (is_visual_[row] == is_visual_[static_cast<size_t>(own)] ? out.same : out.cross)[row] += weights[row] / sum;
      }
    }
    return out;
  }

 private:
  Random random_;
  test::Vector<Half> keys_;
  test::Vector<uint8_t> is_visual_;
  Activations queries_;
  Guarded<float> scores_;
  Guarded<int32_t> kept_, counts_, kept_counts_;
  TextConfig config_;
  CompressScratch scratch_;
};

/// The best rows before the window that are not there yet, until there are `wanted`.
void add_best(const std::vector<double>& scores, size_t wanted, std::set<int32_t>* rows) {
  while (rows->size() < wanted) {
    int32_t best = -1;
    for (int32_t row = 0; row < kRows - kWindow; ++row)
      if (rows->count(row) == 0 && (best < 0 || scores[static_cast<size_t>(row)] > scores[static_cast<size_t>(best)]))
        best = row;
    rows->insert(best);
  }
}

}  // namespace

TEST_CASE("CSP keeps the best by its own modality and by the other, and fills up with the best by both") {
  test::for_each_backend([](Queue& queue) {
    for (const double cross : {0.0, 0.25, 0.5, 1.0}) {
      CspCase instance(80, static_cast<float>(cross), queue);
      const std::vector<std::set<int32_t>> chosen = instance.choose(queue);
      for (int64_t g = 0; g < kKvHeads; ++g) {
        const Sums sums = instance.sums(g);
        std::vector<double> both(sums.same);
        for (size_t row = 0; row < both.size(); ++row) both[row] += sums.cross[row];
        std::set<int32_t> wanted, by_cross;
        add_best(sums.same, static_cast<size_t>(kBudget * (1 - cross)), &wanted);
        add_best(sums.cross, static_cast<size_t>(kBudget * cross), &by_cross);
        wanted.insert(by_cross.begin(), by_cross.end());
        add_best(both, kBudget, &wanted);
        CHECK(chosen[static_cast<size_t>(g)] == wanted);
        // c = 0 and c = 1: one modality's scores alone.
        if (cross != 0 && cross != 1) continue;
        std::set<int32_t> alone;
        add_best(cross == 0 ? sums.same : sums.cross, kBudget, &alone);
        CHECK(wanted == alone);
      }
    }
  });
}

}  // namespace ocellus

// KeyDiff's choice in one layer, against the method as it is written down, in double precision.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "runtime/branches/evict/rules.h"
#include "tests/support/device.h"
#include "tests/support/random.h"

namespace ocellus {
namespace {

using test::Guarded;
using test::Random;

constexpr int64_t kRows = 90, kWindow = 3, kBudget = 25;
constexpr int32_t kKvHeads = 2, kDim = 32;

using Keys = test::Vector<Half>;

double value_at(const Keys& keys, int64_t head, int64_t row, int64_t e) {
  return static_cast<double>(half_to_float(keys[static_cast<size_t>((head * kRows + row) * kDim + e)]));
}

double product(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

/// The rows before the window, those whose keys are least like the mean direction first.
std::vector<int32_t> ranked(const Keys& keys, int64_t head) {
  std::vector<std::vector<double>> directions;
  std::vector<double> anchor(kDim);
  for (int64_t row = 0; row < kRows; ++row) {
    std::vector<double>& key = directions.emplace_back(kDim);
    for (size_t e = 0; e < kDim; ++e) key[e] = value_at(keys, head, row, static_cast<int64_t>(e));
    const double length = std::sqrt(product(key, key));
    for (size_t e = 0; e < kDim; ++e) anchor[e] += key[e] /= length;
  }
  std::vector<int32_t> rows(kRows - kWindow);
  std::iota(rows.begin(), rows.end(), 0);
  std::sort(rows.begin(), rows.end(), [&](int32_t a, int32_t b) {
    return product(directions[static_cast<size_t>(a)], anchor) < product(directions[static_cast<size_t>(b)], anchor);
  });
  return rows;
}

}  // namespace

TEST_CASE("KeyDiff keeps the rows whose keys are least like the mean of all") {
  test::for_each_backend([](Queue& queue) {
    Random random(81);
    Keys keys(size_t{kKvHeads} * kRows * kDim);
    for (Half& key : keys) key = float_to_half(random.normal() + 0.3f);
    test::Vector<uint8_t> is_visual(kRows);
    for (size_t row = 10; row < 60; ++row) is_visual[row] = 1;
    Guarded<float> scores(kKvHeads, kRows);
    Guarded<int32_t> kept(kKvHeads, kRows), counts(2, kKvHeads), kept_counts(1, kKvHeads);
    TextConfig config;
    config.query_heads = config.kv_heads = kKvHeads;
    config.head_dim = kDim;
    const RowRule& rule = keydiff_rule();
    CHECK(rule.observed_rows(kWindow, {.rows = kRows}) == 0);
    Guarded<std::byte> rule_scratch(1, rule.scratch_bytes(config, 0, kRows, queue.traits()));
    Guarded<std::byte> selection(1, select_slots_scratch_bytes(kRows, kKvHeads, queue.traits()));
    CompressScratch scratch;
    scratch.policy.rule = &rule;
    scratch.is_visual.device = {is_visual.data(), 1, kRows};
    scratch.scores = scores.view();
    scratch.kept_text = kept.view();
    scratch.counts = counts.view();
    scratch.rule = rule_scratch.view();
    scratch.selection = selection.view();
    CompressPlan plan;
    plan.active = plan.lists_rows = true;
    plan.facts = {.rows = kRows, .visual_rows = 50};
    plan.survivors = {.window = kWindow, .budget = kBudget};
    plan.text_counts = kept_counts.data();
    const KvLayerRows rows = KvLayerRows::head_major(keys.data(), nullptr, kKvHeads, kDim, kRows);
    rule.choose({.config = config, .plan = plan, .scratch = scratch, .rows = rows}, queue);
    REQUIRE_MESSAGE(queue.finish().ok(), last_failure().sentence);
    CHECK(rule_scratch.intact());
    for (int64_t head = 0; head < kKvHeads; ++head) {
      REQUIRE(kept_counts.at(0, head) == kWindow + kBudget);
      std::vector<int32_t> wanted = ranked(keys, head);
      wanted.resize(kBudget);
      std::sort(wanted.begin(), wanted.end());
      CHECK(std::vector<int32_t>(&kept.at(head, 0), &kept.at(head, 0) + kBudget) == wanted);
    }
  });
}

}  // namespace ocellus

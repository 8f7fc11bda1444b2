#include <algorithm>

#include "kernels/cache/favour_rows.h"
#include "kernels/cache/split_modalities.h"
#include "runtime/branches/evict/eviction_methods.h"
#include "runtime/branches/evict/rule_parts.h"
#include "runtime/branches/evict/rules.h"

namespace ocellus {
namespace {

/// CSP: attention by text queries and by visual queries of the window is scored separately. Of the budget k the best
/// floor(k (1 - c)) rows by their own modality and the best floor(k c) by the other are kept, and where the two agree,
/// the best of the others by the sum. (The paper's eq. 3 has the intersection, its section 5.1 and code the two lists,
/// a row of both counted twice.)
class CspRule final : public RowRule {
 public:
  explicit constexpr CspRule(const ocellus_method& method) : RowRule(method) {}

  int64_t window(const CachePolicy& policy, int64_t kept) const override {
    return policy.window > 0 ? policy.window : std::max<int64_t>(kept / 2, 1);
  }
  int64_t observed_rows(int64_t window, const ChunkFacts&) const override { return window; }
  int64_t scratch_bytes(const TextConfig& c, int64_t observed, int64_t rows,
                        const DeviceTraits& device) const override {
    return 2 * rule_matrix_bytes(c, rows) + score_rows_scratch_bytes(observed, rows, c.query_heads, c.head_dim, device);
  }

  void choose(const LayerToCompress& a, Queue& queue) const override {
    const DeviceView<float> same = rule_matrix(a, 0), cross = rule_matrix(a, 1);
    score(a, Observers::kText, same, queue);
    score(a, Observers::kVisual, cross, queue);
    split_modalities({.of_text = same,
                      .of_visual = cross,
                      .is_visual = a.scratch.is_visual.device.data,
                      .row_count = a.plan.facts.rows,
                      .sums = a.scores()},
                     queue);
    const int64_t budget = a.plan.one_image ? a.plan.image_budget : a.plan.survivors.budget;
    const auto share = static_cast<double>(a.scratch.policy.options.number("cross"));
    favour_best(a, same, static_cast<int64_t>(static_cast<double>(budget) * (1 - share)), queue);
    favour_best(a, cross, static_cast<int64_t>(static_cast<double>(budget) * share), queue);
    SelectSlotsArgs args = a.plan.one_image ? selection_of_image(a) : selection(a, SelectStage::kUnified);
    select_slots(args, queue);
  }

 private:
  void score(const LayerToCompress& a, Observers observers, DeviceView<float> scores, Queue& queue) const {
    ScoreRowsArgs args = scoring(a);
    args.observers.kind = observers;
    args.observers.is_visual = a.scratch.is_visual.device.data;
    args.adds_one = true;
    args.scores = scores;
    args.scratch = behind_matrices(a, 2);
    score_rows(args, queue);
  }

  /// Ranks the `count` best rows by `scores` before all others. Rows without attention are not among them.
  void favour_best(const LayerToCompress& a, DeviceView<float> scores, int64_t count, Queue& queue) const {
    SelectSlotsArgs args = a.plan.one_image ? selection_of_image(a) : selection(a, SelectStage::kUnified);
    args.scores = scores;
    args.budget = count + (a.plan.one_image ? a.plan.text_before_window : 0);
    args.visual_quota = count;
    args.kept.is_split = false;
    args.kept.text_counts = a.scratch.counts.row(0);
    select_slots(args, queue);
    favour_rows({.scores = a.scores(),
                 .reasons = scores,
                 .rows = args.kept.text,
                 .counts = args.kept.text_counts,
                 .most_listed = a.plan.facts.rows,
                 .amount = static_cast<float>(a.plan.facts.rows)},
                queue);
  }
};

constexpr CspRule kCsp(kCspMethod);

}  // namespace

const RowRule& csp_rule() { return kCsp; }

}  // namespace ocellus

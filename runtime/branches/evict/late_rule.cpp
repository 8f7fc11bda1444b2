#include "runtime/branches/evict/late_rule.h"

#include <algorithm>

#include "kernels/cache/merge_similar_kv.h"
#include "kernels/cache/sum_scores.h"
#include "runtime/branches/evict/eviction_methods.h"
#include "runtime/policy/rule_parts.h"

namespace ocellus {
namespace {

struct LateMethod {
  ocellus_method method;
  AttentionFact fact = AttentionFact::kDensity;
  LayerShares shares = LayerShares::kDensity;
  bool all_observe = false;        // all rows observe, else those after the last image
  int64_t window_divisor = 10;     // window = a layer's slots / window_divisor
  bool window_holds_text = false;  // the window has at least the chunk's text, in addition to the other slots
  bool merges = false;             // merges dropped rows
};

class LateRule final : public EvictionRule {
 public:
  explicit constexpr LateRule(const LateMethod& method) : EvictionRule(method.method), method_(method) {}

  bool is_late() const override { return true; }
  LayerShares layer_shares() const override { return method_.shares; }

  int64_t window(const CachePolicy& policy, int64_t kept) const override {
    return policy.window > 0 ? policy.window : std::max<int64_t>(kept / method_.window_divisor, 1);
  }

  Survivors survivors_of_layer(const CachePolicy& policy, const ChunkFacts& facts, double share) const override {
    const auto wanted = static_cast<int64_t>(share * static_cast<double>(facts.rows));
    const int64_t kept = std::clamp<int64_t>(wanted, 1, facts.rows);
    Survivors left;
    left.window = std::min(window(policy, kept), kept);
    left.budget = kept - left.window;
    if (method_.window_holds_text && policy.window == 0) left.window = std::max(left.window, facts.text_rows());
    left.budget = std::min(left.budget, facts.rows - left.window);
    left.text = left.slots();
    return left;
  }

  int64_t observed_rows(int64_t, const ChunkFacts& facts) const override {
    return method_.all_observe ? facts.rows : std::max<int64_t>(facts.rows - facts.image_end, 1);
  }

  int64_t scratch_bytes(const TextConfig& c, int64_t observed, int64_t rows,
                        const DeviceTraits& device) const override {
    return rule_matrix_bytes(c, rows) + score_rows_scratch_bytes(observed, rows, c.query_heads, c.head_dim, device);
  }

  void observe(const LayerToCompress& a, Queue& queue) const override {
    ScoreRowsArgs args = scoring(a);
    args.fact = method_.fact;
    args.facts = rule_matrix(a, 0);
    args.scratch = behind_matrices(a, 1);
    score_rows(args, queue);
    sum_scores({.scores = args.facts,
                .row_count = a.plan.facts.rows,
                .total = a.scratch.layer_facts.device.data + a.layer.index},
               queue);
  }

  void choose(const LayerToCompress& a, Queue& queue) const override {
    SelectSlotsArgs args = selection(a, SelectStage::kUnified);
    select_slots(args, queue);
    if (!method_.merges) return;
    merge_similar_kv({.kept = merging(a, args, 0, a.plan.facts.rows),
                      .row_count = a.plan.facts.rows,
                      .how = SimilarMerge::kAverage,
                      .targets = row_numbers(a)},
                     queue);
  }

 private:
  LateMethod method_;
};

constexpr LateRule kVlCache({.method = kVlCacheMethod});
constexpr LateRule kMeda({.method = kMedaMethod,
                          .fact = AttentionFact::kEntropy,
                          .shares = LayerShares::kEntropy,
                          .all_observe = true,
                          .window_divisor = 2,
                          .window_holds_text = true,
                          .merges = true});

}  // namespace

const EvictionRule& vl_cache_rule() { return kVlCache; }
const EvictionRule& meda_rule() { return kMeda; }

}  // namespace ocellus

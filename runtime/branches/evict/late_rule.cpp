// VL-Cache and MEDA, whose budgets by layer are known only after all layers.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/cache/expand_kv.h"
#include "kernels/cache/merge_similar_kv.h"
#include "kernels/cache/sum_scores.h"
#include "runtime/branches/evict/eviction_methods.h"
#include "runtime/branches/evict/rule_parts.h"
#include "runtime/branches/evict/rules.h"
#include "runtime/models/text_layer.h"

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

/// Lists the pages once more, for reading before anything is counted.
void list_whole_pages(const CompressScratch& s, int64_t count, Queue& queue) {
  for (int64_t p = 0; p < count; ++p) {
    s.whole_pages.host.data[p] = s.pages.host.data[p];
    s.whole_pages.host.data[p].counts = nullptr;
  }
  queue.upload(s.whole_pages, count);
}

/// In a layer it only observes: it fills layer.scores() and the layer's entry in scratch.layer_facts, a sum over heads
/// and observed rows. After the last layer, or in a second pass, it chooses layer by layer.
class LateRule final : public RowRule {
 public:
  explicit constexpr LateRule(const LateMethod& method) : RowRule(method.method), method_(method) {}

  RuleFacts facts(const MethodValues&) const override { return {.is_late = true}; }

  int64_t window(const CachePolicy& policy, int64_t kept) const override {
    return policy.window > 0 ? policy.window : std::max<int64_t>(kept / method_.window_divisor, 1);
  }

  int64_t observed_rows(int64_t, const ChunkFacts& facts) const override {
    return method_.all_observe ? facts.rows : std::max<int64_t>(facts.rows - facts.image_end, 1);
  }

  int64_t scratch_bytes(const TextConfig& c, int64_t observed, int64_t rows,
                        const DeviceTraits& device) const override {
    return rule_matrix_bytes(c, rows) + score_rows_scratch_bytes(observed, rows, c.query_heads, c.head_dim, device);
  }

  Status lay_out_late(const TextConfig& c, const CompressLimits& limits, CompressScratch* s,
                      RowSink& sink) const override {
    constexpr Lifetime kLife = Lifetime::kScratch;
    constexpr Phase kPhase = kPrefillPhase;
    OCELLUS_TRY(s->layer_facts.lay_out(sink, "facts of layers", kLife, kPhase, 1, c.global_layers()));
    OCELLUS_TRY(take_rows(sink, "shares of layers", kLife, kPhase, 1, c.global_layers(), &s->layer_shares));
    if (limits.policy.looks_first()) return {};
    return s->whole_pages.lay_out(sink, "pages of all rows", kLife, kPhase, 1, limits.pages);
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

  void compress(const LayerToCompress& a, Queue& queue) const override {
    LayerToCompress layer = a;
    if (a.plan.shares) layer.plan = plan_of_layer(a, a.layer.index);
    observe(layer, queue);  // with shares, too: there are scores of one layer only
    if (a.plan.shares) {
      choose(layer, queue);
      store_rows(layer, queue);
    } else if (a.plan.is_late && a.layer.index + 1 == a.config.global_layers()) {
      compress_all(a, queue);
    }
  }

  bool end_looks(const TextConfig& config, const CompressScratch& scratch, CompressPlan* plan,
                 Queue& queue) const override {
    plan->shares = true;
    return share_slots(config, *plan, scratch, queue);
  }

  Survivors survivors_of_layer(const CachePolicy& policy, const ChunkFacts& facts, double share) const {
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

 private:
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

  /// Copies the layers' facts to the host, and computes shares. False if the queue has failed.
  bool share_slots(const TextConfig& config, const CompressPlan& plan, const CompressScratch& s, Queue& queue) const {
    const StagedRows<float>& facts = s.layer_facts;
    const int32_t layers = config.global_layers();
    if (facts.host.data != facts.device.data)
      queue.copy(facts.host.data, facts.device.data, layers * static_cast<int64_t>(sizeof(float)));
    if (!queue.finish().ok()) return false;
    const auto lines = static_cast<float>(config.kv_heads * std::max<int64_t>(plan.observers, 1));
    for (int32_t layer = 0; layer < layers; ++layer) facts.host.data[layer] /= lines;
    share_layers(method_.shares, facts.host.data, layers, static_cast<double>(s.policy.keep), s.layer_shares.data);
    return true;
  }

  /// The plan of one layer, whose share is known.
  CompressPlan plan_of_layer(const LayerToCompress& a, int32_t index) const {
    CompressPlan plan = a.plan;
    plan.survivors = survivors_of_layer(a.scratch.policy, plan.facts, a.scratch.layer_shares.data[index]);
    return plan;
  }

  /// Waits for the last layer, whose rows are overwritten, and chooses and stores the kept rows of all.
  void compress_all(const LayerToCompress& last, Queue& queue) const {
    const CompressScratch& s = last.scratch;
    if (!share_slots(last.config, last.plan, s, queue)) return;
    list_whole_pages(s, last.plan.page_count, queue);
    for (int32_t layer = 0; layer < last.config.global_layers(); ++layer) {
      const CompressPlan plan = plan_of_layer(last, layer);
      const LayerToCompress a{
          .config = last.config, .plan = plan, .scratch = s, .rows = last.rows, .layer = KvLayer{.index = layer}};
      expand_kv({.runs = s.whole_pages.device.data,
                 .run_count = plan.page_count,
                 .layer = KvLayer{.index = layer},
                 .rope = a.config.rope,
                 .out = a.rows,
                 .rows_per_run = kPageSlots,
                 .last_run_slots = (plan.facts.rows - 1) % kPageSlots + 1},
                queue);
      choose(a, queue);
      store_rows(a, queue);
    }
  }

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

Survivors survivors_of_layer(const RowRule& late, const CachePolicy& policy, const ChunkFacts& facts, double share) {
  return static_cast<const LateRule&>(late).survivors_of_layer(policy, facts, share);
}

const RowRule& vl_cache_rule() { return kVlCache; }
const RowRule& meda_rule() { return kMeda; }

}  // namespace ocellus

// Rules whose budgets by layer are known only after all layers: VL-Cache and MEDA.
#pragma once

#include "kernels/cache/score_rows.h"
#include "runtime/branches/evict/layer_budgets.h"
#include "runtime/policy/row_rule.h"

namespace ocellus {

struct LateMethod {
  ocellus_method method;
  AttentionFact fact = AttentionFact::kDensity;
  LayerShares shares = LayerShares::kDensity;
  bool all_observe = false;        // all rows observe, else those after the last image
  int64_t window_divisor = 10;     // window = a layer's slots / window_divisor
  bool window_holds_text = false;  // the window has at least the chunk's text, in addition to the other slots
  bool merges = false;             // merges dropped rows
};

/// In a layer it only observes: it fills layer.scores() and the layer's entry in scratch.layer_facts, a sum over heads
/// and observed rows. After the last layer, or in a second pass, it chooses layer by layer.
class LateRule final : public RowRule {
 public:
  explicit constexpr LateRule(const LateMethod& method) : RowRule(method.method), method_(method) {}

  RuleFacts facts(const MethodValues&) const override { return {.is_late = true}; }
  int64_t window(const CachePolicy& policy, int64_t kept) const override;
  int64_t observed_rows(int64_t window, const ChunkFacts& facts) const override;
  int64_t scratch_bytes(const TextConfig& config, int64_t observed, int64_t rows,
                        const DeviceTraits& device) const override;
  Status lay_out_late(const TextConfig& config, const CompressLimits& limits, CompressScratch* scratch,
                      RowSink& sink) const override;
  void choose(const LayerToCompress& layer, Queue& queue) const override;
  void compress(const LayerToCompress& layer, Queue& queue) const override;
  bool end_looks(const TextConfig& config, const CompressScratch& scratch, CompressPlan* plan,
                 Queue& queue) const override;

  /// Returns the survivors of a layer that may keep `share` of the chunk's rows.
  Survivors survivors_of_layer(const CachePolicy& policy, const ChunkFacts& facts, double share) const;

 private:
  void observe(const LayerToCompress& layer, Queue& queue) const override;
  bool share_slots(const TextConfig& config, const CompressPlan& plan, const CompressScratch& scratch,
                   Queue& queue) const;
  CompressPlan plan_of_layer(const LayerToCompress& layer, int32_t index) const;
  void compress_all(const LayerToCompress& last, Queue& queue) const;

  LateMethod method_;
};

/// VL-Cache (arXiv 2410.23317; no public code). The rows after the last image observe. A layer's share of the slots is
/// proportional to the density of their attention; it keeps the best rows by column sums and, for a tenth of its slots,
/// the most recent.
const LateRule& vl_cache_rule();

/// MEDA as in its public code: all rows observe, a layer's share is proportional to e to the power of the entropy of
/// its attention per row. Half of it are the best rows by column sums, half the most recent, but no fewer than there is
/// text; dropped rows are merged into the most similar kept ones, to the average. The code adds the first decode step's
/// attention to the sums, ours are the prompt's.
const LateRule& meda_rule();

}  // namespace ocellus

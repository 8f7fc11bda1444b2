#include "kernels/cache/score_keys.h"
#include "runtime/branches/evict/eviction_methods.h"
#include "runtime/branches/evict/rule_parts.h"
#include "runtime/branches/evict/rules.h"

namespace ocellus {
namespace {

/// KeyDiff reads keys alone, and so no query has to wait for the end of the prompt. The paper evicts after each block
/// of a long prompt; here a chunk of the prompt, or an image, is the block. Its keys are compared with each other.
class KeyDiffRule final : public RowRule {
 public:
  explicit constexpr KeyDiffRule(const ocellus_method& method) : RowRule(method) {}

  int64_t window(const CachePolicy& policy, int64_t) const override { return policy.window > 0 ? policy.window : 1; }
  int64_t observed_rows(int64_t, const ChunkFacts&) const override { return 0; }
  int64_t scratch_bytes(const TextConfig& c, int64_t, int64_t, const DeviceTraits&) const override {
    return rule_matrix_bytes(c, ScoreKeysArgs::kParts * c.head_dim);
  }

  void choose(const LayerToCompress& a, Queue& queue) const override {
    auto* const anchors = reinterpret_cast<float*>(a.scratch.rule.data);
    score_keys({.scores = a.scores(),
                .rows = a.rows,
                .row_count = a.plan.facts.rows,
                .anchors = {anchors, a.config.kv_heads * ScoreKeysArgs::kParts, a.config.head_dim}},
               queue);
    select_slots(a.plan.one_image ? selection_of_image(a) : selection(a, SelectStage::kUnified), queue);
  }
};

constexpr KeyDiffRule kKeyDiff(kKeyDiffPrefillMethod);

}  // namespace

const RowRule& keydiff_rule() { return kKeyDiff; }

}  // namespace ocellus

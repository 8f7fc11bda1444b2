#include "runtime/eviction_rule.h"

#include <algorithm>

#include "kernels/score_rows.h"
#include "kernels/select_slots.h"

namespace ocellus {
namespace {

/// The selection of the best rows by the scores in the scratch: what all rules that score share.
SelectSlotsArgs selection(const LayerToCompress& a, SelectStage stage) {
  const CachePolicy& policy = a.scratch.policy;
  const CompressPlan& plan = a.plan;
  SelectSlotsArgs args;
  args.scores = a.scratch.scores;
  args.row_count = plan.facts.rows;
  args.is_visual = a.scratch.is_visual.device.data;
  args.visual_count = plan.facts.visual_rows;
  args.window = plan.survivors.window;
  args.pool = policy.pool;
  args.pooling = policy.pooling;
  args.ncar = policy.ncar;
  args.threshold = policy.threshold;
  args.layer = a.layer;
  args.state = a.scratch.ncar.data;
  args.kept_text = a.scratch.kept_text;
  args.kept_visual = a.scratch.kept_visual;
  args.scratch = a.scratch.selection;
  const int64_t counts_at = int64_t{a.layer} * a.config.kv_heads;
  args.text_counts = plan.text_counts + counts_at;
  args.visual_counts = plan.visual_counts + counts_at;
  args.stage = stage;
  args.budget = plan.survivors.budget;
  args.visual_quota = policy.visual_quota(plan.survivors.budget);
  args.is_split = policy.packs();
  args.pack_window = policy.pack_window;
  return args;
}

/// The same where only an image's rows compete: text takes no part, so all of it is let through here and stored in its
/// pages, and the image keeps its own number.
SelectSlotsArgs selection_of_image(const LayerToCompress& a) {
  SelectSlotsArgs args = selection(a, SelectStage::kDecoupled);
  args.visual_quota = a.plan.image_budget;
  args.budget = a.plan.image_budget + a.plan.text_before_window;
  args.is_split = true;
  args.pack_window = true;
  args.text_counts = a.scratch.counts.row(0);
  args.visual_counts = a.scratch.counts.row(1);
  return args;
}

/// SnapKV, and DAVID on top of it: rows are scored by the attention that they get from a short window of last rows.
class WindowRule final : public EvictionRule {
 public:
  explicit constexpr WindowRule(SelectStage stage) : stage_(stage) {}

  int64_t window(const CachePolicy& policy, int64_t kept) const override {
    return policy.window > 0 ? policy.window : std::clamp(kept / 2, kLeastWindow, kMostWindow);
  }
  int64_t observed_rows(int64_t window, int64_t) const override { return window; }
  int64_t scratch_bytes(const TextConfig& c, int64_t observed, int64_t rows,
                        const DeviceTraits& device) const override {
    return score_rows_scratch_bytes(observed, rows, c.query_heads, c.head_dim, device);
  }
  void choose(const LayerToCompress& a, Queue& queue) const override {
    score_rows({.query = a.queries,
                .query_heads = a.config.query_heads,
                .rows = a.rows,
                .row_count = a.plan.facts.rows,
                .runs = a.past,
                .run_count = a.past_count,
                .layer = a.layer,
                .rope = a.config.rope,
                .calibration = a.scratch.policy.calibration,
                .scores = a.scratch.scores,
                .scratch = a.scratch.rule},
               queue);
    select_slots(a.plan.one_image ? selection_of_image(a) : selection(a, stage_), queue);
  }

 private:
  static constexpr int64_t kLeastWindow = 4;
  static constexpr int64_t kMostWindow = 16;
  SelectStage stage_;
};

constexpr WindowRule kSnapKv(SelectStage::kUnified);
constexpr WindowRule kDavid(SelectStage::kUntilSwitch);

}  // namespace

const EvictionRule& eviction_rule(EvictMethod method) {
  switch (method) {
    case EvictMethod::kNone: break;
    case EvictMethod::kSnapKv: return kSnapKv;
    case EvictMethod::kDavid: return kDavid;
  }
  return kSnapKv;
}

}  // namespace ocellus

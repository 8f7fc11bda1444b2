#include "runtime/eviction_rule.h"

#include <algorithm>

#include "kernels/merge_similar_kv.h"
#include "kernels/order_scores.h"
#include "kernels/refine_scores.h"
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
  args.pack_text = policy.packs_text();
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
  args.pack_text = false;
  args.text_counts = a.scratch.counts.row(0);
  args.visual_counts = a.scratch.counts.row(1);
  return args;
}

/// Rows whose queries say how much attention a row gets.
enum class Observed : uint8_t { kNone, kWindow, kAll };
/// How many last rows stay, whatever their score, where the user does not say.
enum class Window : uint8_t {
  kShort,  // half of what is kept, from 4 to 16
  kHalf,   // half of what is kept
  kOne,
  kRest  // all but the first rows
};

enum class Merge : uint8_t { kNone, kNearest, kNearestUnrotated, kSimilar };

/// How the methods that score, then select the best rows, differ.
struct ScoredMethod {
  Observed observed = Observed::kWindow;
  Window window = Window::kShort;
  SelectStage stage = SelectStage::kUnified;
  bool pools = false;
  bool by_values = false;      // scores times the norm of values
  bool mean = false;           // one ranking for all heads
  bool by_order = false;       // ranked as Elastic Cache's public code does, see order_scores
  int64_t first_rows = 0;      // that stay
  bool text_first = false;     // pictures get what text leaves
  bool all_text = false;       // text stays, be it more than the budget
  Merge merge = Merge::kNone;  // what is dropped into what is kept
};

class ScoredRule final : public EvictionRule {
 public:
  explicit constexpr ScoredRule(const ScoredMethod& method) : method_(method) {}

  int64_t window(const CachePolicy& policy, int64_t kept) const override {
    if (policy.window > 0) return policy.window;
    switch (method_.window) {
      case Window::kShort: return std::clamp(kept / 2, kLeastWindow, kMostWindow);
      case Window::kHalf: return std::max<int64_t>(kept / 2, 1);
      case Window::kOne: return 1;
      case Window::kRest: return std::max<int64_t>(kept - method_.first_rows, 1);
    }
    return 1;
  }

  int64_t observed_rows(int64_t window, int64_t rows) const override {
    return method_.observed == Observed::kNone ? 0 : method_.observed == Observed::kAll ? rows : window;
  }

  bool keeps_text() const override { return method_.all_text; }

  int64_t scratch_bytes(const TextConfig& c, int64_t observed, int64_t rows,
                        const DeviceTraits& device) const override {
    const bool numbers_rows = method_.merge == Merge::kSimilar || method_.by_order;
    const int64_t numbers = numbers_rows ? rows * c.kv_heads * int64_t{sizeof(int32_t)} : 0;
    if (method_.observed == Observed::kNone) return numbers;
    return std::max(numbers, score_rows_scratch_bytes(observed, rows, c.query_heads, c.head_dim, device));
  }

  void choose(const LayerToCompress& a, Queue& queue) const override {
    score(a, queue);
    SelectSlotsArgs args = a.plan.one_image ? selection_of_image(a) : selection(a, method_.stage);
    if (!method_.pools) args.pool = 1;
    if (method_.observed == Observed::kAll) args.observed = a.plan.observed;
    select_slots(args, queue);
    if (method_.merge != Merge::kNone) merge(a, args, queue);
  }

 private:
  static constexpr int64_t kLeastWindow = 4;
  static constexpr int64_t kMostWindow = 16;

  void score(const LayerToCompress& a, Queue& queue) const {
    if (method_.observed != Observed::kNone)
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
    const RefineScoresArgs refined{.scores = a.scratch.scores,
                                   .rows = a.rows,
                                   .row_count = a.plan.facts.rows,
                                   .clear = method_.observed == Observed::kNone,
                                   .by_values = method_.by_values,
                                   .mean = method_.mean,
                                   .text_first = method_.text_first,
                                   .is_visual = a.scratch.is_visual.device.data,
                                   .first_rows = method_.first_rows};
    if (refined.clear || refined.by_values || refined.mean || refined.text_first || refined.first_rows > 0)
      refine_scores(refined, queue);
    if (method_.by_order)
      order_scores({.scores = a.scratch.scores,
                    .first = method_.first_rows,
                    .end = a.plan.facts.rows - a.plan.survivors.window,
                    .order = row_numbers(a)},
                   queue);
  }

  void merge(const LayerToCompress& a, const SelectSlotsArgs& kept, Queue& queue) const {
    // Where the nearest is joined, the first rows and the window stay as they are.
    MergeKvArgs args{.rows = a.rows,
                     .first = method_.first_rows,
                     .end = a.plan.facts.rows - a.plan.survivors.window,
                     .kept_text = kept.kept_text,
                     .kept_visual = kept.kept_visual,
                     .text_counts = kept.text_counts,
                     .visual_counts = kept.is_split ? kept.visual_counts : nullptr,
                     .most_kept = a.plan.survivors.slots()};
    if (method_.merge == Merge::kSimilar)
      return merge_similar_kv({.kept = args, .row_count = a.plan.facts.rows, .targets = row_numbers(a)}, queue);
    if (method_.merge == Merge::kNearestUnrotated) {
      args.rope = a.config.rope;
      args.angles = a.angles;
    }
    merge_kv(args, queue);
  }

  /// A number for every row and head, in memory that scoring is done with.
  static DeviceView<int32_t> row_numbers(const LayerToCompress& a) {
    return {reinterpret_cast<int32_t*>(a.scratch.rule.data), a.config.kv_heads, a.plan.facts.rows};
  }

  ScoredMethod method_;
};

constexpr ScoredRule kSnapKv({.pools = true});
constexpr ScoredRule kDavid({.stage = SelectStage::kUntilSwitch, .pools = true});
constexpr ScoredRule kH2oPrefill({.observed = Observed::kAll, .window = Window::kHalf});
constexpr ScoredRule kDavidH2o({.observed = Observed::kAll,
                                .window = Window::kHalf,
                                .stage = SelectStage::kUntilSwitch});
constexpr ScoredRule kSinkRecent({.observed = Observed::kNone, .window = Window::kRest, .first_rows = 4});
constexpr ScoredRule kElasticPrefill(
    {.observed = Observed::kAll, .window = Window::kOne, .mean = true, .first_rows = 1, .merge = Merge::kNearest});
constexpr ScoredRule kElasticRepo({.observed = Observed::kAll,
                                   .window = Window::kOne,
                                   .mean = true,
                                   .by_order = true,
                                   .first_rows = 1,
                                   .merge = Merge::kNearest});
constexpr ScoredRule kElasticDeropePrefill({.observed = Observed::kAll,
                                            .window = Window::kOne,
                                            .mean = true,
                                            .first_rows = 1,
                                            .merge = Merge::kNearestUnrotated});
constexpr ScoredRule kLookM(
    {.observed = Observed::kAll, .window = Window::kHalf, .text_first = true, .merge = Merge::kSimilar});
constexpr ScoredRule kLookMAllText({.observed = Observed::kAll,
                                    .window = Window::kHalf,
                                    .text_first = true,
                                    .all_text = true,
                                    .merge = Merge::kSimilar});
constexpr ScoredRule kValueWindow({.by_values = true});

const EvictionRule* find_rule(EvictMethod method) {
  switch (method) {
    case EvictMethod::kNone: break;
    case EvictMethod::kSnapKv: return &kSnapKv;
    case EvictMethod::kDavid: return &kDavid;
    case EvictMethod::kH2oPrefill: return &kH2oPrefill;
    case EvictMethod::kDavidH2o: return &kDavidH2o;
    case EvictMethod::kSinkRecent: return &kSinkRecent;
    case EvictMethod::kElasticPrefill: return &kElasticPrefill;
    case EvictMethod::kValueWindow: return &kValueWindow;
    case EvictMethod::kLookM: return &kLookM;
    case EvictMethod::kLookMAllText: return &kLookMAllText;
    case EvictMethod::kElasticRepo: return &kElasticRepo;
    case EvictMethod::kElasticDeropePrefill: return &kElasticDeropePrefill;
  }
  return nullptr;
}

}  // namespace

const EvictionRule& eviction_rule(EvictMethod method) {
  const EvictionRule* rule = find_rule(method);
  return rule != nullptr ? *rule : kSnapKv;
}

bool is_evict_method(int32_t number) {
  if (number < 0 || number > UINT8_MAX) return false;
  const auto method = static_cast<EvictMethod>(number);
  return method == EvictMethod::kNone || find_rule(method) != nullptr;
}

}  // namespace ocellus

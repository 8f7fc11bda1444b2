#include "runtime/policy/eviction_rule.h"

#include <algorithm>

#include "kernels/cache/favour_rows.h"
#include "kernels/cache/merge_similar_kv.h"
#include "kernels/cache/order_scores.h"
#include "kernels/cache/refine_scores.h"
#include "kernels/cache/split_modalities.h"
#include "runtime/policy/late_rule.h"
#include "runtime/policy/rule_parts.h"

namespace ocellus {
namespace {

/// Rows whose queries say how much attention a row gets.
enum class Observed : uint8_t { kNone, kWindow, kAll };
/// How many last rows stay, whatever their score, where the user does not say.
enum class Window : uint8_t {
  kShort,  // half of what is kept, from 4 to 16
  kHalf,   // half of what is kept
  kOne,
  kRest,         // all but the first rows
  kRestOfBlocks  // what is left by as many whole blocks as the policy's window allows
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
  AnswerRule answers = {};
};

class ScoredRule final : public EvictionRule {
 public:
  explicit constexpr ScoredRule(const ScoredMethod& method) : method_(method) {}

  AnswerRule answers() const override { return method_.answers; }

  int64_t window(const CachePolicy& policy, int64_t kept) const override {
    if (policy.window > 0 && method_.window != Window::kRestOfBlocks) return policy.window;
    switch (method_.window) {
      case Window::kShort: return std::clamp(kept / 2, kLeastWindow, kMostWindow);
      case Window::kHalf: return std::max<int64_t>(kept / 2, 1);
      case Window::kOne: return 1;
      case Window::kRest: return std::max<int64_t>(kept - method_.first_rows, 1);
      case Window::kRestOfBlocks:
        return kept - std::max<int64_t>(kept - policy.window, 0) / policy.block_slots * policy.block_slots;
    }
    return 1;
  }

  int64_t observed_rows(int64_t window, const ChunkFacts& facts) const override {
    return method_.observed == Observed::kNone ? 0 : method_.observed == Observed::kAll ? facts.rows : window;
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
    if (method_.observed != Observed::kNone) score_rows(scoring(a), queue);
    const RefineScoresArgs refined{.scores = a.scores(),
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
      order_scores({.scores = a.scores(),
                    .first = method_.first_rows,
                    .end = a.plan.facts.rows - a.plan.survivors.window,
                    .order = row_numbers(a)},
                   queue);
  }

  void merge(const LayerToCompress& a, const SelectSlotsArgs& kept, Queue& queue) const {
    // Where the nearest is joined, the first rows and the window stay as they are.
    MergeKvArgs args = merging(a, kept, method_.first_rows, a.plan.facts.rows - a.plan.survivors.window);
    if (method_.merge == Merge::kSimilar)
      return merge_similar_kv({.kept = args, .row_count = a.plan.facts.rows, .targets = row_numbers(a)}, queue);
    if (method_.merge == Merge::kNearestUnrotated) {
      args.rope = a.config.rope;
      args.angles = a.angles;
    }
    merge_kv(args, queue);
  }

  ScoredMethod method_;
};

/// CSP: what text queries and visual queries of the window attend is kept apart. Of the budget k the best
/// floor(k (1 - c)) rows stay by what their own modality attends and the best floor(k c) by what the other does, and
/// where the two agree, the best of the others by the sum. (The paper's eq. 3 has the intersection, its section 5.1 and
/// code the two lists, a row of both counted twice.)
class CspRule final : public EvictionRule {
 public:
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
    const auto share = static_cast<double>(a.scratch.policy.csp_cross);
    favour_best(a, same, static_cast<int64_t>(static_cast<double>(budget) * (1 - share)), queue);
    favour_best(a, cross, static_cast<int64_t>(static_cast<double>(budget) * share), queue);
    SelectSlotsArgs args = a.plan.one_image ? selection_of_image(a) : selection(a, SelectStage::kUnified);
    args.pool = 1;
    select_slots(args, queue);
  }

 private:
  void score(const LayerToCompress& a, Observers observers, DeviceView<float> scores, Queue& queue) const {
    ScoreRowsArgs args = scoring(a);
    args.observers = observers;
    args.is_visual = a.scratch.is_visual.device.data;
    args.adds_one = true;
    args.scores = scores;
    args.scratch = behind_matrices(a, 2);
    score_rows(args, queue);
  }

  /// Lets the `count` best rows by `scores` rank before all others. Rows that nothing attends are not among them.
  void favour_best(const LayerToCompress& a, DeviceView<float> scores, int64_t count, Queue& queue) const {
    SelectSlotsArgs args = a.plan.one_image ? selection_of_image(a) : selection(a, SelectStage::kUnified);
    args.scores = scores;
    args.budget = count + (a.plan.one_image ? a.plan.text_before_window : 0);
    args.visual_quota = count;
    args.pool = 1;
    args.is_split = false;
    args.text_counts = a.scratch.counts.row(0);
    select_slots(args, queue);
    favour_rows({.scores = a.scores(),
                 .reasons = scores,
                 .rows = args.kept_text,
                 .counts = args.text_counts,
                 .most_listed = a.plan.facts.rows,
                 .amount = static_cast<float>(a.plan.facts.rows)},
                queue);
  }
};

constexpr CspRule kCsp;
constexpr ScoredRule kSnapKv({.pools = true});
constexpr ScoredRule kDavid({.stage = SelectStage::kUntilSwitch, .pools = true});
constexpr ScoredRule kH2oPrefill({.observed = Observed::kAll, .window = Window::kHalf});
constexpr ScoredRule kDavidH2o({.observed = Observed::kAll,
                                .window = Window::kHalf,
                                .stage = SelectStage::kUntilSwitch});
constexpr ScoredRule kH2o({.observed = Observed::kAll,
                           .window = Window::kHalf,
                           .answers = {.evicts = true, .required = true, .by_attention = true}});
constexpr ScoredRule kSinkRecent({.observed = Observed::kNone,
                                  .window = Window::kRest,
                                  .first_rows = 4,
                                  .answers = {.evicts = true, .first_slots = 4}});
constexpr ScoredRule kStreamingLlm({.observed = Observed::kNone,
                                    .window = Window::kRest,
                                    .first_rows = 4,
                                    .answers = {
                                        .evicts = true, .required = true, .moves_sinks = true, .first_slots = 4}});
constexpr ScoredRule kElasticPrefill(
    {.observed = Observed::kAll, .window = Window::kOne, .mean = true, .first_rows = 1, .merge = Merge::kNearest});
constexpr ScoredRule kElastic(
    {.observed = Observed::kAll,
     .window = Window::kOne,
     .mean = true,
     .first_rows = 1,
     .merge = Merge::kNearest,
     .answers = {.evicts = true, .required = true, .grows = true, .first_slots = 1, .last_slots = 25}});
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
constexpr ScoredRule kPackOldest({.observed = Observed::kNone, .window = Window::kRestOfBlocks});

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
    case EvictMethod::kH2o: return &kH2o;
    case EvictMethod::kStreamingLlm: return &kStreamingLlm;
    case EvictMethod::kElastic: return &kElastic;
    case EvictMethod::kLookMAllText: return &kLookMAllText;
    case EvictMethod::kElasticRepo: return &kElasticRepo;
    case EvictMethod::kElasticDeropePrefill: return &kElasticDeropePrefill;
    case EvictMethod::kCsp: return &kCsp;
    case EvictMethod::kVlCache: return &vl_cache_rule();
    case EvictMethod::kMeda: return &meda_rule();
    case EvictMethod::kPackOldest: return &kPackOldest;
  }
  return nullptr;
}

}  // namespace

const EvictionRule& eviction_rule(EvictMethod method) {
  const EvictionRule* rule = find_rule(method);
  return rule != nullptr ? *rule : kSnapKv;
}

bool is_evict_method(int32_t number) {
  if (number < 0 || number >= static_cast<int32_t>(EvictMethod::kPackOldest)) return false;
  const auto method = static_cast<EvictMethod>(number);
  return method == EvictMethod::kNone || find_rule(method) != nullptr;
}

}  // namespace ocellus

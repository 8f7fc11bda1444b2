// The branch evict: methods that drop slots. Most of them score rows and keep the best.
#include <algorithm>
#include <cmath>
#include <iterator>

#include "kernels/cache/cluster_kv.h"
#include "kernels/cache/merge_similar_kv.h"
#include "kernels/cache/order_scores.h"
#include "kernels/cache/refine_scores.h"
#include "runtime/branches/all.h"
#include "runtime/branches/evict/eviction_methods.h"
#include "runtime/branches/evict/rule_parts.h"
#include "runtime/branches/evict/rules.h"
#include "runtime/branches/evict/slot_dropper.h"
#include "runtime/engine/engine_memory.h"

namespace ocellus {
namespace {

/// Rows whose queries are used for scoring.
enum class Observed : uint8_t { kNone, kWindow, kAll };
/// Words of Elastic Cache's options, in the order of their tables below.
enum class Ranking : uint8_t { kLayer, kHead, kShared };
enum class Metric : uint8_t { kSum, kMean, kMovingAverage };
enum class Discard : uint8_t { kFixed, kOldest, kAttention };
enum class MergeWord : uint8_t { kNearest, kNone, kClusters };
/// True if the method has the option, and its value is the word.
template <class Word>
bool says(const MethodValues& options, const char* key, Word word) {
  return options.has(key) && options.word(key) == static_cast<int32_t>(word);
}
/// Default number of last rows that are kept, whatever their score.
enum class Window : uint8_t {
  kShort,  // half of the kept rows, from 4 to 16
  kHalf,   // half of the kept rows
  kOne,
  kRest  // all but the first rows
};

enum class Merge : uint8_t { kNone, kNearest, kNearestUnrotated, kSimilar };

/// Differences between the methods that score rows and select the best.
struct ScoredMethod {
  ocellus_method method;
  Observed observed = Observed::kWindow;
  Window window = Window::kShort;
  SelectStage stage = SelectStage::kUnified;
  bool pools = false;
  bool by_values = false;      // scores are multiplied by the norm of values
  bool random = false;         // random scores
  bool mean = false;           // one ranking for all heads
  bool by_order = false;       // ranked as in Elastic Cache's public code, see order_scores
  int64_t first_rows = 0;      // number of first rows that are kept
  bool text_first = false;     // pictures get the slots that text leaves
  bool all_text = false;       // all text is kept, even beyond the budget
  Merge merge = Merge::kNone;  // merging of dropped rows into kept ones
  AnswerRule answers = {};
};

/// Visual share of DAVID's budget while text and pictures are decoupled: rho is visual slots per text slot.
int64_t david_visual_quota(const MethodValues& options, int64_t budget) {
  const float rho = options.number("rho");
  const double share = options.word("shares") == 1 ? 1.0 / (1.0 + rho) : rho / (1.0 + rho);
  return static_cast<int64_t>(std::floor(static_cast<double>(budget) * share));
}

/// Scratch of clusters, in memory that scoring no longer needs.
struct ClusterScratch {
  static constexpr int64_t kClusters = 10;  // Elastic Cache, section 4.4

  DeviceView<int32_t> seeds;     // [G, kClusters]
  DeviceView<int32_t> clusters;  // [G, T]
  DeviceView<float> centres;

  static int64_t bytes(const TextConfig& c, int64_t rows) {
    return seed_bytes(c) + rule_matrix_bytes(c, rows) + rule_matrix_bytes(c, kClusters * (2 * c.head_dim + 1));
  }
  explicit ClusterScratch(const LayerToCompress& a) {
    const TextConfig& c = a.config;
    const int64_t rows = a.plan.facts.rows;
    std::byte* const memory = a.scratch.rule.data;
    seeds = {reinterpret_cast<int32_t*>(memory), c.kv_heads, kClusters};
    clusters = {reinterpret_cast<int32_t*>(memory + seed_bytes(c)), c.kv_heads, rows};
    centres = {reinterpret_cast<float*>(memory + seed_bytes(c) + rule_matrix_bytes(c, rows)), c.kv_heads,
               kClusters * (2 * c.head_dim + 1)};
  }

 private:
  static int64_t seed_bytes(const TextConfig& c) { return rule_matrix_bytes(c, kClusters); }
};

class ScoredRule final : public RowRule {
 public:
  explicit constexpr ScoredRule(const ScoredMethod& method) : RowRule(method.method), method_(method) {}

  RuleFacts facts(const MethodValues& options) const override {
    return {.keeps_text = method_.all_text,
            .ranks_layers_together = says(options, "ranking", Ranking::kShared),
            .watches_ncar = watches_ncar(),
            .clusters = says(options, "merge", MergeWord::kClusters) ? ClusterScratch::kClusters : 0,
            .answers = answers(options)};
  }

  int64_t window(const CachePolicy& policy, int64_t kept) const override {
    if (policy.window > 0) return policy.window;
    switch (method_.window) {
      case Window::kShort: return std::clamp(kept / 2, kLeastWindow, kMaxWindow);
      case Window::kHalf: return std::max<int64_t>(kept / 2, 1);
      case Window::kOne: return 1;
      case Window::kRest: return std::max<int64_t>(kept - method_.first_rows, 1);
    }
    return 1;
  }

  int64_t observed_rows(int64_t window, const ChunkFacts& facts) const override {
    return method_.observed == Observed::kNone ? 0 : method_.observed == Observed::kAll ? facts.rows : window;
  }

  int64_t scratch_bytes(const TextConfig& c, int64_t observed, int64_t rows,
                        const DeviceTraits& device) const override {
    const bool numbers_rows = method_.merge == Merge::kSimilar || method_.by_order;
    const int64_t numbers = numbers_rows                       ? rows * c.kv_heads * int64_t{sizeof(int32_t)}
                            : method_.merge == Merge::kNearest ? ClusterScratch::bytes(c, rows)
                                                               : 0;
    if (method_.observed == Observed::kNone) return numbers;
    return std::max(numbers, score_rows_scratch_bytes(observed, rows, c.query_heads, c.head_dim, device));
  }

  void choose(const LayerToCompress& a, Queue& queue) const override {
    const bool is_ranked = a.layer.index > 0 && a.scratch.policy.facts.ranks_layers_together;  // by the first layer
    if (!is_ranked) rank(a, queue);
    SelectSlotsArgs args = a.plan.one_image ? selection_of_image(a) : selection(a, method_.stage);
    set_options(a.scratch.policy.options, a.plan, &args);
    if (method_.observed == Observed::kAll || a.readers != nullptr) args.observed = a.plan.observers;
    if (a.plan.survivors.centres > 0 && !is_ranked) seed(a, args, queue);
    select_slots(args, queue);
    if (a.plan.survivors.centres > 0) return cluster(a, args, queue);
    if (method_.merge == Merge::kNone || says(a.scratch.policy.options, "merge", MergeWord::kNone)) return;
    if (a.scratch.policy.facts.clusters == 0) merge(a, args, queue);
  }

 protected:
  /// With one ranking for all layers: adds the layer's scores to those before it.
  void observe(const LayerToCompress& a, Queue& queue) const override {
    ScoreRowsArgs args = scoring_by_metric(a);
    args.adds = a.layer.index > 0;
    score_rows(args, queue);
  }
  void note_stored(const LayerToCompress& a, Queue& queue) const override { note_kept(a, queue); }

 private:
  static constexpr int64_t kLeastWindow = 4;
  static constexpr int64_t kMaxWindow = 16;
  static constexpr uint64_t kSeeds = 256;

  bool watches_ncar() const { return method_.stage == SelectStage::kUntilSwitch; }

  AnswerRule answers(const MethodValues& options) const {
    AnswerRule rule = method_.answers;
    if (options.has("place")) rule.last_slots = static_cast<int64_t>(options.number("place"));
    if (!options.has("discard") || says(options, "discard", Discard::kFixed)) return rule;
    rule.last_slots = -1;
    rule.by_attention = says(options, "discard", Discard::kAttention);
    return rule;
  }

  void set_options(const MethodValues& options, const CompressPlan& plan, SelectSlotsArgs* args) const {
    if (options.has("pool")) {
      args->pool.width = static_cast<int64_t>(options.number("pool"));
      args->pool.kind = options.word("pool-by") == 1 ? ScorePooling::kMean : ScorePooling::kMax;
    }
    if (!watches_ncar()) return;
    args->ncar.when =
        options.is_word("switch") ? static_cast<NcarSwitch>(options.word("switch")) : NcarSwitch::kAtLayer;
    args->ncar.threshold = options.number("switch", options.number("threshold"));
    if (!plan.one_image) args->visual_quota = david_visual_quota(options, plan.survivors.budget);
  }

  static ScoreRowsArgs scoring_by_metric(const LayerToCompress& a) {
    const MethodValues& options = a.scratch.policy.options;
    ScoreRowsArgs args = scoring(a);
    if (says(options, "metric", Metric::kMovingAverage)) args.observers.decay = options.number("decay");
    return args;
  }

  void rank(const LayerToCompress& a, Queue& queue) const {
    const MethodValues& options = a.scratch.policy.options;
    if (method_.observed != Observed::kNone && !a.scratch.policy.facts.ranks_layers_together)
      score_rows(scoring_by_metric(a), queue);
    const uint64_t seed = method_.random ? static_cast<uint64_t>(options.number("seed")) : 0;
    const RefineScoresArgs refined{.scores = a.scores(),
                                   .rows = a.rows,
                                   .row_count = a.plan.facts.rows,
                                   .clear = method_.observed == Observed::kNone,
                                   .random = method_.random,
                                   .by_readers = says(options, "metric", Metric::kMean),
                                   .readers = a.readers,
                                   .by_values = method_.by_values,
                                   .mean = method_.mean && !says(options, "ranking", Ranking::kHead),
                                   .text_first = method_.text_first ? a.scratch.is_visual.device.data : nullptr,
                                   .first_rows = method_.first_rows,
                                   .seed = seed + static_cast<uint64_t>(a.layer.index) * kSeeds};
    if (refined.clear || refined.by_readers || refined.by_values || refined.mean || method_.text_first ||
        refined.first_rows > 0)
      refine_scores(refined, queue);
    if (method_.by_order)
      order_scores({.scores = a.scores(),
                    .first = method_.first_rows,
                    .end = a.plan.facts.rows - a.plan.survivors.window,
                    .order = row_numbers(a)},
                   queue);
  }

  /// Lets the selection keep seeds of clusters besides the rows that it keeps without.
  void seed(const LayerToCompress& a, SelectSlotsArgs without, Queue& queue) const {
    without.budget -= a.plan.survivors.centres;
    without.visual_quota -= a.plan.survivors.centres;
    select_slots(without, queue);
    seed_clusters({.kept = merging(a, without, 0, a.plan.facts.rows),
                   .row_count = a.plan.facts.rows,
                   .seeds = ClusterScratch(a).seeds,
                   .scores = a.scores()},
                  queue);
  }

  void cluster(const LayerToCompress& a, const SelectSlotsArgs& kept, Queue& queue) const {
    const ClusterScratch scratch(a);
    cluster_kv({.kept = merging(a, kept, 0, a.plan.facts.rows),
                .row_count = a.plan.facts.rows,
                .seeds = scratch.seeds,
                .clusters = scratch.clusters,
                .centres = scratch.centres},
               queue);
  }

  void merge(const LayerToCompress& a, const SelectSlotsArgs& kept, Queue& queue) const {
    // With kNearest, the first rows and the window stay unchanged.
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

// Besides its recent window, each keeps the best rows by a score, per layer and key/value head.
constexpr ScoredRule kSnapKv({.method = kSnapKvMethod, .pools = true});
constexpr ScoredRule kDavid({.method = kDavidMethod, .stage = SelectStage::kUntilSwitch, .pools = true});
constexpr ScoredRule kH2oPrefill({.method = kH2oPrefillMethod, .observed = Observed::kAll, .window = Window::kHalf});
constexpr ScoredRule kDavidH2o({.method = kDavidH2oMethod,
                                .observed = Observed::kAll,
                                .window = Window::kHalf,
                                .stage = SelectStage::kUntilSwitch});
constexpr ScoredRule kSinkRecent({.method = kSinkRecentMethod,
                                  .observed = Observed::kNone,
                                  .window = Window::kRest,
                                  .first_rows = 4,
                                  .answers = {.drops_slots = true, .first_slots = 4}});
constexpr ScoredRule kElasticPrefill({.method = kElasticPrefillMethod,
                                      .observed = Observed::kAll,
                                      .window = Window::kOne,
                                      .mean = true,
                                      .first_rows = 1,
                                      .merge = Merge::kNearest});
constexpr ScoredRule kRandom({.method = kRandomMethod, .observed = Observed::kNone, .random = true});
constexpr ScoredRule kValueWindow({.method = kValueWindowMethod, .by_values = true});
constexpr ScoredRule kLookM({.method = kLookMMethod,
                             .observed = Observed::kAll,
                             .window = Window::kHalf,
                             .text_first = true,
                             .merge = Merge::kSimilar});
constexpr ScoredRule kH2o({.method = kH2oMethod,
                           .observed = Observed::kAll,
                           .window = Window::kHalf,
                           .answers = {.drops_slots = true, .required = true, .by_attention = true}});
constexpr ScoredRule kStreamingLlm({.method = kStreamingLlmMethod,
                                    .observed = Observed::kNone,
                                    .window = Window::kRest,
                                    .first_rows = 4,
                                    .answers = {
                                        .drops_slots = true, .required = true, .moves_sinks = true, .first_slots = 4}});
constexpr ScoredRule kElastic(
    {.method = kElasticMethod,
     .observed = Observed::kAll,
     .window = Window::kOne,
     .mean = true,
     .first_rows = 1,
     .merge = Merge::kNearest,
     .answers = {.drops_slots = true, .required = true, .grows = true, .first_slots = 1, .last_slots = 25}});
constexpr ScoredRule kLookMAllText({.method = kLookMAllTextMethod,
                                    .observed = Observed::kAll,
                                    .window = Window::kHalf,
                                    .text_first = true,
                                    .all_text = true,
                                    .merge = Merge::kSimilar});
constexpr ScoredRule kElasticRepo({.method = kElasticRepoMethod,
                                   .observed = Observed::kAll,
                                   .window = Window::kOne,
                                   .mean = true,
                                   .by_order = true,
                                   .first_rows = 1,
                                   .merge = Merge::kNearest});
constexpr ScoredRule kElasticDeropePrefill({.method = kElasticDeropePrefillMethod,
                                            .observed = Observed::kAll,
                                            .window = Window::kOne,
                                            .mean = true,
                                            .first_rows = 1,
                                            .merge = Merge::kNearestUnrotated});

/// InfiniPot-V's row in the list of methods. Images are stored as without eviction: a rolling session thins them.
class InfinipotRule final : public RowRule {
 public:
  explicit constexpr InfinipotRule(const ocellus_method& method) : RowRule(method) {}

  RuleFacts facts(const MethodValues&) const override { return {.thins_frames = true}; }
};

constexpr InfinipotRule kInfinipot(kInfinipotMethod);

const RowRule* rule_at(int32_t index) {
  static const RowRule* const kRules[] = {&kSnapKv,         &kDavid,        &kH2o,         &kValueWindow,
                                          &kH2oPrefill,     &kDavidH2o,     &kSinkRecent,  &kStreamingLlm,
                                          &kElasticPrefill, &kElastic,      &kElasticRepo, &kElasticDeropePrefill,
                                          &kLookM,          &kLookMAllText, &csp_rule(),   &keydiff_rule(),
                                          &vl_cache_rule(), &meda_rule(),   &kInfinipot,   &kRandom};
  static_assert(std::size(kRules) == std::size(kEvictionMethods));
  return index >= 0 && index < std::ssize(kRules) ? kRules[index] : nullptr;
}

constexpr MethodTable kMethods = eviction_table(rule_at);

/// Sizes pages and blocks if all rows of a prompt compete, for any division of images into prompts: each image may be
/// the only one of its prompt, which leaves an incomplete page and an incomplete block.
Status size(const TextConfig&, EngineShape* s) {
  const CachePolicy& policy = s->policy;
  SessionShape& session = s->session;
  if (!s->pictures.planned() || !policy.lists_chunks() || policy.packs_oldest()) return {};
  const int64_t images = s->pictures.per_session, visual_rows = images * s->pictures.rows;
  const ChunkFacts all{.rows = session.text_tokens + visual_rows, .visual_rows = visual_rows};
  const Survivors left = policy.survivors(all);
  const int64_t in_windows = policy.facts.is_late ? all.visual_rows : images * left.window;
  const int64_t window = policy.packs() && !policy.pack_window ? in_windows : 0;
  session.kept_prompts = images;
  s->kv.image_slots = 0;
  // Surviving text replaces the text that came in; f16 images add to it.
  const int64_t first = images * policy.first_f16_rows();
  const int64_t f16_slots = session.text_tokens + (policy.packs() ? window + first : policy.most_visual(all, images));
  session.pages = blocks_of(f16_slots, kPageSlots) + images;
  session.blocks = 0;
  if (!policy.packs()) return {};
  // At least one slot of every prompt stays, even where that is more than the share to keep.
  const bool packs_text = policy.packs_text();
  const int64_t visual = std::min(policy.most_visual(all, images) + images, packs_text ? all.rows : all.visual_rows);
  s->kv.block_slots = static_cast<int32_t>(std::min<int64_t>(s->kv.block_slots, visual));
  const int64_t block = s->kv.block_slots;
  session.blocks = (visual + images * (block - 1)) / block;
  if (!packs_text) session.blocks = std::min(session.blocks, images * blocks_of(s->pictures.rows, block));
  return {};
}

Status lay_out(const Model&, const EngineShape& shape, RowSink&, EngineMemory* memory) {
  if (!shape.policy.facts.answers.drops_slots) return {};
  memory->branches.dropper = make_slot_dropper(shape.policy, memory->pools);
  if (memory->branches.dropper != nullptr) return {};
  return OCELLUS_FAIL(Code::kIo, "the system has no memory for eviction during answers");
}

}  // namespace

const Branch kEvictBranch = {
    .facts = {.name = "evict", .is_built = 1}, .methods = &kMethods, .size = size, .lay_out = lay_out};

}  // namespace ocellus

// The methods of the branch evict, as users name them. A build without the branch lists them, too.
#pragma once

#include "runtime/policy/method_text.h"
#include "runtime/policy/row_rule.h"

namespace ocellus {

/// The option of every method: number of recent tokens to keep. `meaning` explains "auto".
constexpr ocellus_method_option window_option(const char* meaning) {
  return {"window", "auto", 1, 65536, 1, "auto", meaning};
}

inline constexpr ocellus_method_option kShortWindow =
    window_option("Recent tokens to keep; auto: half of the kept tokens, from 4 to 16.");
inline constexpr ocellus_method_option kHalfWindow =
    window_option("Recent tokens to keep; auto: half of the kept tokens.");
inline constexpr ocellus_method_option kPool = {
    "pool", nullptr, 1, 65, 2, "5", "Number of neighbouring scores that are pooled."};
inline constexpr ocellus_method_option kPoolBy = {
    "pool-by", "max|mean", 1, 0, 0, "max", "Pooling function: maximum or mean."};
inline constexpr ocellus_method_option kRho = {
    "rho", nullptr, 0, 1000, 0, "2", "Visual tokens per text token in the decoupled stage."};
inline constexpr ocellus_method_option kShares = {
    "shares",
    "defined|line-28",
    1,
    0,
    0,
    "defined",
    "Shares from rho: by the paper's definition, or by line 28 of its algorithm."};
inline constexpr ocellus_method_option kSwitch = {
    "switch",
    "small-drop|large-drop|low",
    0,
    NcarState::kMaxLayers,
    1,
    "small-drop",
    "The unified stage begins where NCAR falls by less than the threshold (eq. 7), by more (the prose), is below it "
    "(figure 2), or at this layer."};
inline constexpr ocellus_method_option kThreshold = {"threshold", nullptr, -1000, 1000, 0, "0.3", "Threshold of NCAR."};

inline constexpr ocellus_method_option kWindowOnly[] = {kShortWindow};
inline constexpr ocellus_method_option kHalfWindowOnly[] = {kHalfWindow};
inline constexpr ocellus_method_option kLastWindow = window_option("Recent tokens to keep; auto: the last one.");
inline constexpr ocellus_method_option kOneWindow[] = {kLastWindow};
// Elastic Cache's own settings are the standard ones, the others the ablations of its table 3.
inline constexpr ocellus_method_option kMergeOption = {
    "merge",
    "nearest|none|clusters",
    1,
    0,
    0,
    "nearest",
    "Dropped tokens are merged into the nearest kept one, lost, or kept as the means of ten clusters of their keys, in "
    "ten more slots."};
inline constexpr ocellus_method_option kRanking = {
    "ranking",
    "layer|head|shared",
    1,
    0,
    0,
    "layer",
    "One ranking for a layer, for each of its heads, or for all layers (prompts are read twice)."};
inline constexpr ocellus_method_option kMetric = {
    "metric",
    "sum|mean|moving-average",
    1,
    0,
    0,
    "sum",
    "Sum of the attention to a token, its mean over the tokens that read it, or its exponential moving average."};
inline constexpr ocellus_method_option kDecay = {
    "decay", nullptr, 0.001, 0.9999, 0, "0.9", "Of the moving average: weight of all tokens before the last one."};
inline constexpr ocellus_method_option kDiscard = {
    "discard",
    "fixed|oldest|attention",
    1,
    0,
    0,
    "fixed",
    "During answers: the oldest token after a fixed place, the oldest but the first, or the one with least attention."};
inline constexpr ocellus_method_option kPlace = {
    "place", nullptr, 1, 65536, 1, "25", "The fixed place, in kept tokens before the prompt's end."};
inline constexpr ocellus_method_option kElasticPrefillOptions[] = {kLastWindow, kMergeOption, kRanking, kMetric,
                                                                   kDecay};
inline constexpr ocellus_method_option kElasticOptions[] = {kLastWindow, kMergeOption, kRanking, kMetric,
                                                            kDecay,      kDiscard,     kPlace};
inline constexpr ocellus_method_option kRandomOptions[] = {kShortWindow,
                                                           {"seed", nullptr, 0, 255, 1, "0", "Seed of the choice."}};
inline constexpr ocellus_method_option kRestWindow[] = {
    window_option("Recent tokens to keep; auto: all kept tokens but the first four.")};
inline constexpr ocellus_method_option kSnapKvOptions[] = {kShortWindow, kPool, kPoolBy};
inline constexpr ocellus_method_option kDavidOptions[] = {kShortWindow, kPool,   kPoolBy,   kRho,
                                                          kShares,      kSwitch, kThreshold};
inline constexpr ocellus_method_option kDavidH2oOptions[] = {kHalfWindow, kRho, kShares, kSwitch, kThreshold};

inline constexpr ocellus_method_option kCspOptions[] = {
    window_option("Recent tokens to keep, whose attention is scored; auto: half of the kept tokens."),
    {"cross", nullptr, 0, 1, 0, "0.5", "Share of the slots chosen by attention between modalities."}};
inline constexpr ocellus_method_option kTenthWindow[] = {
    window_option("Recent tokens to keep; auto: a tenth of those that a layer keeps.")};
inline constexpr ocellus_method_option kTextWindow[] = {
    window_option("Recent tokens to keep; auto: half of those that a layer keeps, at least the text.")};

inline constexpr ocellus_method_option kInfinipotOptions[] = {
    {"tar", nullptr, 0, 1, 0, "0.5",
     "Share of the kept slots chosen by novelty (TaR); norms of values choose the rest."},
    {"recent", nullptr, 0, 1, 0, "0.25", "Share of the frames that are the recent ones, which TaR keeps whole."},
    {"pool", "layers|none", 1, 0, 0, "layers",
     "Norms are pooled over time and grid, grid, and order in the first three quarters of the layers, or nowhere."}};

inline constexpr ocellus_method kSnapKvMethod =
    recommend(describe_method("snapkv", "SnapKV, Li et al. 2024", "Attention of the window, pooled.", kSnapKvOptions));
inline constexpr ocellus_method kDavidMethod =
    recommend(describe_method("david", "DAVID",
                              "SnapKV's score; text and pictures have separate shares in the first layers, "
                              "a common one in the others. With images one by one: as snapkv.",
                              kDavidOptions));
inline constexpr ocellus_method kH2oMethod = recommend(describe_method(
    "h2o", "H2O, Zhang et al. 2023",
    "As h2o-prefill; during answers each new token evicts the one with least attention.", kHalfWindowOnly));
inline constexpr ocellus_method kValueWindowMethod = recommend(
    describe_method("value-window", "ours", "Attention of the window times the norm of the value.", kWindowOnly));
inline constexpr ocellus_method kH2oPrefillMethod = describe_method(
    "h2o-prefill", "H2O, Zhang et al. 2023", "Attention of all rows, once after the prompt.", kHalfWindowOnly);
inline constexpr ocellus_method kDavidH2oMethod =
    describe_method("david-h2o", "DAVID, table 6", "David's stages on the score of h2o-prefill.", kDavidH2oOptions);
inline constexpr ocellus_method kSinkRecentMethod =
    describe_method("sink-recent", "StreamingLLM, Xiao et al. 2023, without its new positions",
                    "The first four tokens and the last, also during answers.", kRestWindow);
inline constexpr ocellus_method kStreamingLlmMethod =
    describe_method("streaming-llm", "StreamingLLM, Xiao et al. 2023",
                    "The first four tokens and the last, at consecutive positions, also during answers.", kRestWindow);
inline constexpr ocellus_method kElasticPrefillMethod =
    describe_method("elastic-prefill", "Elastic Cache",
                    "Attention of all rows, one ranking per layer; dropped tokens are merged into the "
                    "nearest kept one, once after the prompt.",
                    kElasticPrefillOptions);
inline constexpr ocellus_method kElasticMethod =
    describe_method("elastic", "Elastic Cache",
                    "As elastic-prefill; during answers evicts the oldest token after a fixed place to "
                    "maintain the share of all tokens.",
                    kElasticOptions);
inline constexpr ocellus_method kElasticRepoMethod =
    describe_method("elastic-repo", "Elastic Cache's public code",
                    "As elastic-prefill, ranked by the indices of sorted scores.", kOneWindow);
inline constexpr ocellus_method kElasticDeropePrefillMethod = describe_method(
    "elastic-derope-prefill", "ours", "As elastic-prefill, keys averaged before their rotation.", kOneWindow);
inline constexpr ocellus_method kLookMMethod = describe_method(
    "look-m", "LOOK-M, strict budget, pivot merge",
    "Attention of all rows, text before pictures; dropped tokens are merged into the most similar kept ones.",
    kHalfWindowOnly);
inline constexpr ocellus_method kLookMAllTextMethod =
    describe_method("look-m-all-text", "LOOK-M's public code",
                    "As look-m, but keeps all text, even beyond the share; pictures get the rest.", kHalfWindowOnly);
inline constexpr ocellus_method kCspMethod =
    describe_method("csp", "CSP",
                    "N-softmax attention of the window; keeps the best by attention within a "
                    "modality, the best between modalities, and of the others the best by both.",
                    kCspOptions);
inline constexpr ocellus_method kKeyDiffPrefillMethod =
    describe_method("keydiff-prefill", "KeyDiff, Park et al. 2025, arXiv 2504.15364",
                    "Keys that are unlike the others, whatever reads them; once after the prompt.", kOneWindow);
inline constexpr ocellus_method kVlCacheMethod =
    describe_method("vl-cache", "VL-Cache, arXiv 2410.23317",
                    "Attention of the rows after the last image; layers share the "
                    "slots by its density, after all have run: twice, if pictures are "
                    "packed.",
                    kTenthWindow);
inline constexpr ocellus_method kMedaMethod =
    describe_method("meda", "MEDA's public code",
                    "Attention of all rows; layers share the slots by its entropy, after all have run (twice, "
                    "if pictures are packed); dropped tokens are merged into the most similar kept ones.",
                    kTextWindow);
inline constexpr ocellus_method kInfinipotMethod =
    describe_method("infinipot-v", "InfiniPot-V, Kim et al. 2025",
                    "In rolling sessions that are full, older images are thinned to the share to keep: slots unlike "
                    "those at their place in recent images, and those with large values.",
                    kInfinipotOptions);
inline constexpr ocellus_method kRandomMethod =
    describe_method("random", "baseline", "Tokens chosen at random.", kRandomOptions);

/// All of them, in the order in which they are listed.
inline constexpr ocellus_method kEvictionMethods[] = {
    kSnapKvMethod,         kDavidMethod,        kH2oMethod,         kValueWindowMethod,
    kH2oPrefillMethod,     kDavidH2oMethod,     kSinkRecentMethod,  kStreamingLlmMethod,
    kElasticPrefillMethod, kElasticMethod,      kElasticRepoMethod, kElasticDeropePrefillMethod,
    kLookMMethod,          kLookMAllTextMethod, kCspMethod,         kKeyDiffPrefillMethod,
    kVlCacheMethod,        kMedaMethod,         kInfinipotMethod,   kRandomMethod};
constexpr MethodTable eviction_table(const RowRule* (*rule_at)(int32_t index)) {
  return {.kind = OCELLUS_METHOD_EVICT,
          .what = "eviction method",
          .has_none = true,
          .methods = kEvictionMethods,
          .rule_at = rule_at};
}

}  // namespace ocellus

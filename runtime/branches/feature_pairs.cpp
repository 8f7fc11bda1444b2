#include "runtime/branches/feature_pairs.h"

#include <array>
#include <string_view>

#include "runtime/branches/reduce/reduction_methods.h"
#include "runtime/engine/branch.h"
#include "runtime/policy/row_rule.h"

namespace ocellus {
namespace {

constexpr FeaturePair kPairs[] = {
    {Feature::kThinning, Feature::kPacking,
     "thins images that are not packed: plan 16 bits (kv_bits), or another method"},
    {Feature::kThinning, Feature::kReuse,
     "thins images that are read in their session, and linked ones are not (reuse): plan no reuse, or another method"},
    {Feature::kThinning, Feature::kReduction,
     "compares rows at the same place of images: plan all of their rows (reduce_keep)"},
    {Feature::kKivi, Feature::kImageEnd,
     "packs prompts, not images one by one (compress_at): compress at the prompt's end or before the suffix"},
    {Feature::kEvictsAnswers, Feature::kKivi,
     "drops single tokens of answers, and kivi packs them in blocks of 32: choose another eviction method, or another "
     "packing scheme"},
    {Feature::kCalibquant, Feature::kImageEnd,
     "has one range for all images of a prompt, so it does not pack them one by one (compress_at): choose per-image, "
     "or compress at the prompt's end or before the suffix"},
    {Feature::kRanksLate, Feature::kImageEnd,
     "chooses among all rows of a prompt, not image by image (compress_at): compress at the prompt's end or before the "
     "suffix"},
    {Feature::kNeedsAnswers, Feature::kImageEnd,
     "chooses among all tokens, not image by image (compress_at): compress at the prompt's end or before the suffix"},
    {Feature::kReuse, Feature::kEvictsImages,
     "links images, and a linked image is not read in its prompt (reuse), so none of it is evicted when it ends "
     "(evict, compress_at): evict at the prompt's end or before the suffix"},
    {Feature::kPrefix, Feature::kStagedImages,
     "reads an image after all slots before it, which here depend on the rest of the prompt: plan another way to "
     "reuse, or none of eviction, kivi and calibquant"},
    {Feature::kRanksByAttention, Feature::kFullReuse,
     "ranks rows by their attention, and with full reuse only the last token sees images: plan MPIC, spread, carry or "
     "CacheBlend"},
    {Feature::kSharedImages, Feature::kStagedImages,
     "needs linked images that are the same in all prompts, and those that are packed or evicted with their prompt are "
     "stored with it, so that sessions cannot share them: plan none (shared_images)"},
    {Feature::kReduction, Feature::kReuse,
     "leaves out rows of pictures, and linked ones are read with all (reuse): plan no reuse, or all rows (reduce_keep) "
     "however long they take (reduce_ms)"},
    {Feature::kReducesClips, Feature::kImageEnd,
     "compares the frames of a clip, which are read one by one if the cache is compressed after each (compress_at)"},
    {Feature::kReducesInLayers, Feature::kBeforeEnd,
     "ranks rows of pictures by the prompt's last token, which is read with them only if the cache is compressed at "
     "the prompt's end (compress_at)"},
    {Feature::kEvictsAnswers, Feature::kRollingContext,
     "drops tokens of later answers, which stand among those of the oldest prompt that a rolling context releases "
     "together: plan another eviction method"},
    {Feature::kPrefix, Feature::kRollingContext,
     "finds an image by everything before it, some of which a rolling context has released: plan another way to reuse "
     "images"},
    {Feature::kClips, Feature::kTiles, "has frames of one view each: plan no clips, or at most one tile (max_tiles)"},
    {Feature::kEvictsAnswers, Feature::kDrafts,
     "changes the cache by every token, and guessed ones are dropped if they are wrong: plan another method, or no "
     "drafts (draft_rows)"},
    {Feature::kKivi, Feature::kDrafts,
     "changes the cache by every token, and guessed ones are dropped if they are wrong: plan another scheme, or no "
     "drafts (draft_rows)"}};

/// A feature's name, and the field of limits that names a method of it.
struct FeatureName {
  const char* name;
  const char* field = nullptr;
};

constexpr FeatureName kNames[] = {{"infinipot-v (evict)", "evict"},
                                  {"an eviction method that ranks by attention (evict)", "evict"},
                                  {"an eviction method that ranks after all layers (evict)", "evict"},
                                  {"an eviction method during answers (evict)", "evict"},
                                  {"an eviction method of whole sessions (evict)", "evict"},
                                  {"eviction image by image (compress_at)"},
                                  {"kivi (kv_scheme)"},
                                  {"calibquant (kv_scheme)"},
                                  {"packed images (kv_bits)"},
                                  {"compression image by image (compress_at)"},
                                  {"compression before the prompt's end (compress_at)"},
                                  {"reuse"},
                                  {"prefix caching (reuse)"},
                                  {"full reuse (reuse)"},
                                  {"images packed or evicted with their prompt (evict, kv_scheme)"},
                                  {"sharing of images (shared_images)"},
                                  {"reduction (reduce_keep, reduce_ms)", "reduce"},
                                  {"a reduction of clips (reduce)", "reduce"},
                                  {"a reduction after some layers (reduce)", "reduce"},
                                  {"a rolling context"},
                                  {"a clip (max_clip_frames)"},
                                  {"tiles (max_tiles)"},
                                  {"drafts (draft_rows)"}};
static_assert(std::size(kNames) == static_cast<size_t>(Feature::kDrafts) + 1);

bool has_eviction(Feature feature, const CachePolicy& policy) {
  if (feature == Feature::kThinning) return policy.thin.on();
  if (!policy.drops_rows()) return false;
  switch (feature) {
    case Feature::kRanksByAttention: return policy.rule->observed_rows(1, {.rows = 2}) > 0;
    case Feature::kRanksLate: return policy.facts.is_late;
    case Feature::kEvictsAnswers: return policy.facts.answers.drops_slots;
    case Feature::kNeedsAnswers: return policy.rule->facts(policy.options).answers.required;
    default: return policy.cuts_images();
  }
}

/// The name of the method that the limits have, without its options.
std::string_view reduction_of(const EngineShape& s) {
  const std::string_view text = s.limits.reduce;
  return text.substr(0, text.find(':'));
}

bool has(Feature feature, const EngineShape& s) {
  const CachePolicy& policy = s.policy;
  switch (feature) {
    case Feature::kThinning:
    case Feature::kRanksByAttention:
    case Feature::kRanksLate:
    case Feature::kEvictsAnswers:
    case Feature::kNeedsAnswers:
    case Feature::kEvictsImages: return has_eviction(feature, policy);
    case Feature::kKivi: return policy.packs_oldest();
    case Feature::kCalibquant: return policy.one_range;
    case Feature::kPacking: return policy.packs();
    case Feature::kImageEnd: return policy.compresses() && policy.when == CompressAt::kImageEnd;
    case Feature::kBeforeEnd: return policy.compresses() && policy.when != CompressAt::kPromptEnd;
    case Feature::kReuse: return s.limits.reuse != OCELLUS_REUSE_NONE;
    case Feature::kPrefix: return s.reuse.in_context();
    case Feature::kFullReuse: return s.reuse.text_alone();
    case Feature::kStagedImages: return s.reuse.staged;
    case Feature::kSharedImages: return s.reuse.shares();
    case Feature::kReduction: return s.limits.reduce_keep < 1 || s.limits.reduce_ms > 0;
    case Feature::kReducesClips: return has(Feature::kReduction, s) && reduction_of(s) == kEvs.name;
    case Feature::kReducesInLayers: return has(Feature::kReduction, s) && reduction_of(s) == kFastV.name;
    case Feature::kRollingContext: return false;
    case Feature::kClips: return s.limits.max_clip_frames > 0;
    case Feature::kTiles: return s.limits.max_tiles > 1;
    case Feature::kDrafts: return s.limits.draft_rows > 1;
  }
  return false;
}

constexpr auto kTexts = [] {
  std::array<ocellus_feature_pair, std::size(kPairs)> texts = {};
  for (size_t i = 0; i < texts.size(); ++i)
    texts[i] = {kNames[static_cast<size_t>(kPairs[i].one)].name, kNames[static_cast<size_t>(kPairs[i].other)].name,
                kPairs[i].reason};
  return texts;
}();

/// The method that the limits have in the field; empty: none.
std::string_view method_in(const char* field, const EngineShape& s) {
  if (field == nullptr) return {};
  if (std::string_view(field) == "reduce") return reduction_of(s);
  return s.policy.thin.on() ? s.policy.thin.method : s.policy.rule->method().name;
}

Status refuse(const FeaturePair& pair, const EngineShape& s) {
  const FeatureName& name = kNames[static_cast<size_t>(pair.one)];
  if (const std::string_view method = method_in(name.field, s); !method.empty())
    return OCELLUS_FAIL(Code::kBadArgument, "%.*s (%s) %s", static_cast<int>(method.size()), method.data(), name.field,
                        pair.reason);
  return OCELLUS_FAIL(Code::kBadArgument, "%s %s", name.name, pair.reason);
}

}  // namespace

std::span<const FeaturePair> feature_pairs() { return kPairs; }

Status check_pairs(const EngineShape& shape) {
  for (const FeaturePair& pair : kPairs)
    if (has(pair.one, shape) && has(pair.other, shape)) return refuse(pair, shape);
  return {};
}

Status check_pairs_with(Feature feature, const EngineShape& shape) {
  for (const FeaturePair& pair : kPairs)
    if (pair.other == feature && has(pair.one, shape)) return refuse(pair, shape);
  return {};
}

}  // namespace ocellus

const ocellus_feature_pair* ocellus_feature_pair_get(int32_t index) {
  return index >= 0 && index < std::ssize(ocellus::kTexts) ? &ocellus::kTexts[static_cast<size_t>(index)] : nullptr;
}

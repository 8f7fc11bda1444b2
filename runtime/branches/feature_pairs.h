// Pairs of features that one engine cannot have: the table of feature_pairs.cpp, which planning,
// `ocellus methods` and the test of all pairs read. What a model cannot have is refused where the model is read.
#pragma once

#include <span>

#include "runtime/engine/engine_shape.h"

namespace ocellus {

/// Properties that an engine has by its limits. A method may have several.
enum class Feature : uint8_t {
  kThinning,
  kRanksByAttention,
  kRanksLate,
  kEvictsAnswers,
  kNeedsAnswers,
  kEvictsImages,
  kKivi,
  kCalibquant,
  kPacking,
  kImageEnd,
  kBeforeEnd,
  kReuse,
  kPrefix,
  kFullReuse,
  kStagedImages,
  kSharedImages,
  kReduction,
  kReducesClips,
  kReducesInLayers,
  kRollingContext,  // asked for by a session
  kClips,
  kTiles,
  kDrafts,
};

/// The name of `one` and `reason` are a sentence.
struct FeaturePair {
  Feature one, other;
  const char* reason;
};

std::span<const FeaturePair> feature_pairs();

/// Refuses pairs with what a session asks for: see check_pairs().
Status check_pairs_with(Feature feature, const EngineShape& shape);

}  // namespace ocellus

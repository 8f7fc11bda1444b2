// Biases and penalties of single logits, alike on every backend to the bit: sums are rounded once, from f64. Compiled
// for the device too.
#pragma once

#include <cstdint>

#include "kernels/base/step_row.h"

namespace ocellus {

/// Returns token number `age` of the ring, the newest being 0.
OCELLUS_EVERYWHERE inline int32_t recent_token(const RecentTokens& recent, int32_t age) {
  return recent.tokens[(recent.count - 1 - age) % kRecentTokens];
}

/// Returns the number of the newest tokens that also stand right before the one of this age.
OCELLUS_EVERYWHERE inline int32_t repeated_length(const RecentTokens& recent, int32_t age) {
  int32_t length = 0;
  while (age + 1 + length < recent.kept() && recent_token(recent, length) == recent_token(recent, age + 1 + length))
    ++length;
  return length;
}

/// Returns DRY's penalty of a repeat of this length, rounded.
OCELLUS_EVERYWHERE inline float dry_penalty(const Penalties& penalties, int32_t length) {
  if (length < penalties.dry_length) return 0;
  constexpr double kMost = 1e30;
  double penalty = static_cast<double>(penalties.dry_multiplier);
  for (int32_t i = penalties.dry_length; i < length && penalty < kMost; ++i)
    penalty *= static_cast<double>(penalties.dry_base);
  return static_cast<float>(penalty < kMost ? penalty : kMost);
}

/// Returns true if no newer token is the same: each is penalised once.
OCELLUS_EVERYWHERE inline bool is_newest(const RecentTokens& recent, int32_t age) {
  for (int32_t newer = 0; newer < age; ++newer)
    if (recent_token(recent, newer) == recent_token(recent, age)) return false;
  return true;
}

/// Returns the logit of the recent token of this age with all penalties.
OCELLUS_EVERYWHERE inline float penalised(float logit, const Penalties& penalties, const RecentTokens& recent,
                                          int32_t age) {
  const int32_t token = recent_token(recent, age);
  int32_t count = 0, longest = 0;
  for (int32_t at = age; at < recent.kept(); ++at) {
    if (recent_token(recent, at) != token) continue;
    ++count;
    if (penalties.dry_multiplier == 0) continue;
    const int32_t length = repeated_length(recent, at);
    longest = length > longest ? length : longest;
  }
  const float scaled = logit > 0 ? logit / penalties.repetition : logit * penalties.repetition;
  const double lowered = static_cast<double>(scaled) -
                         (static_cast<double>(penalties.frequency) * count + static_cast<double>(penalties.presence));
  return static_cast<float>(lowered - static_cast<double>(dry_penalty(penalties, longest)));
}

}  // namespace ocellus

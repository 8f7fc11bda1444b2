#include "runtime/policy/step_eviction.h"

#include <algorithm>

#include "runtime/policy/eviction_rule.h"

namespace ocellus {

StepEviction plan_eviction(const CachePolicy& policy, const SessionCache& cache) {
  StepEviction eviction;
  if (!policy.evicts_answers() || cache.eviction_count() == 0) return eviction;
  const AnswerRule rule = policy.evict->answers(policy.options);
  eviction.on = 1;
  eviction.slots = static_cast<int32_t>(cache.live_slots());
  if (rule.grows)
    eviction.growth = policy.keep;
  else
    eviction.budget = eviction.slots;
  if (rule.by_attention) eviction.recent = policy.window > 0 ? policy.window : std::max(1, eviction.slots / 2);
  eviction.moves_sinks = cache.has_sinks() ? 1 : 0;
  return eviction;
}

AnswerSteps plan_steps(const StepEviction& eviction, int64_t position, const AnswerRoom& room, int64_t wanted) {
  StepEviction at = eviction;
  AnswerSteps planned;
  wanted = std::min(wanted, room.positions);
  for (int64_t grown = 0; planned.steps < wanted; ++planned.steps) {
    const bool evicts = at.evicts(static_cast<int32_t>(position + planned.steps));
    const int64_t spare = planned.spare + (evicts && planned.spare < room.packed ? 1 : 0);
    if (grown + spare >= room.text) break;
    planned.slots = grown + 1;
    planned.spare = spare;
    if (evicts) continue;
    ++at.slots;
    ++grown;
  }
  return planned;
}

}  // namespace ocellus

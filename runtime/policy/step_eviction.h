// Eviction from a session's cache during an answer: the host's instructions to the device. The device then counts on
// its own (kernels/base/step_row.h), and the host, counting in the same way, knows the result.
#pragma once

#include "kernels/base/step_row.h"
#include "runtime/cache/kv_cache.h"
#include "runtime/policy/cache_policy.h"

namespace ocellus {

/// Off unless the policy evicts during answers and a prompt has left something: text that never competed is kept.
StepEviction plan_eviction(const CachePolicy& policy, const SessionCache& cache);

/// Text slots and positions left for an answer.
struct AnswerRoom {
  int64_t text = 0;
  int64_t positions = 0;
  int64_t packed = 0;  // maximum of packed slots in a layer and head: a token takes a text slot where one is evicted
};

struct AnswerSteps {
  int64_t steps = 0;  // steps that fit
  int64_t slots = 0;  // maximum of text slots that they take in the order of text
  int64_t spare = 0;  // maximum of those that they take for packed slots
};

/// Returns how many of `wanted` steps fit, the first at `position`. Every step reads a token, which takes a position,
/// and a slot unless it takes another one's; that, too, needs a waiting slot.
AnswerSteps plan_steps(const StepEviction& eviction, int64_t position, const AnswerRoom& room, int64_t wanted);

}  // namespace ocellus

// What goes from a session's cache while it answers: what the host tells the device beforehand. The device then counts
// on by itself (kernels/base/step_row.h), and the host, counting the same way, knows what it does.
#pragma once

#include "kernels/base/step_row.h"
#include "runtime/cache/kv_cache.h"
#include "runtime/policy/cache_policy.h"

namespace ocellus {

/// Off unless the policy goes on while sessions answer and a prompt has left something: text that never competed stays.
StepEviction plan_eviction(const CachePolicy& policy, const SessionCache& cache);

/// Text slots and positions that are left for an answer.
struct AnswerRoom {
  int64_t text = 0;
  int64_t positions = 0;
};

struct AnswerSteps {
  int64_t steps = 0;  // that there is room for
  int64_t slots = 0;  // of text, that they take at most
};

/// Of `wanted` steps, the first at `position`. Every step reads a token, which takes a position, and a slot unless it
/// takes another one's; that, too, needs one to wait in.
AnswerSteps plan_steps(const StepEviction& eviction, int64_t position, const AnswerRoom& room, int64_t wanted);

}  // namespace ocellus

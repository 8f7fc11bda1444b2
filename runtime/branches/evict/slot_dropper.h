// Eviction during answers: the host's instructions to the device. The device then counts on its own
// (kernels/base/step_row.h), and the host, counting in the same way, knows the result.
#pragma once

#include <memory>

#include "runtime/cache/kv_cache.h"
#include "runtime/forward/answer_hooks.h"
#include "runtime/policy/cache_policy.h"

namespace ocellus {

/// Off unless the policy evicts during answers and a prompt has left something: text that never competed is kept.
StepEviction plan_eviction(const CachePolicy& policy, const SessionCache& cache);

/// Returns how many of `wanted` steps fit, the first at `position`. Every step reads a token, which takes a position,
/// and a slot unless it takes another one's; that, too, needs a waiting slot.
AnswerSteps plan_steps(const StepEviction& eviction, int64_t position, const AnswerRoom& room, int64_t wanted);

/// The pools must stay valid, and may be laid out later. Null if there is no memory.
std::unique_ptr<SlotDropper> make_slot_dropper(const CachePolicy& policy, const KvPools& pools);

}  // namespace ocellus

// Marks of a cache with the state of its layers with convolutions: see LocalRing.
#pragma once

#include "runtime/cache/kv_cache.h"

namespace ocellus {

/// Marks the cache, and keeps the state in the place of `state`, if there are such layers.
CacheMark mark_with_state(const SessionCache& cache, KeptState state, Queue& queue);
/// Rewinds the cache to a mark that may have a state.
void rewind_with_state(SessionCache& cache, const CacheMark& mark, Queue& queue);

}  // namespace ocellus

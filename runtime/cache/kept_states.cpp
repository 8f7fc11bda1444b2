#include "runtime/cache/kept_states.h"

namespace ocellus {

CacheMark mark_with_state(const SessionCache& cache, KeptState state, Queue& queue) {
  CacheMark mark = cache.mark();
  if (!cache.shape().local.convolves) return mark;
  cache.ring().keep(state, queue);
  mark.state = state;
  return mark;
}

void rewind_with_state(SessionCache& cache, const CacheMark& mark, Queue& queue) {
  cache.rewind(mark);
  if (mark.state != KeptState::kNone && !cache.ring().still_has(mark.ring_rows))
    cache.ring().bring_back(mark.state, mark.ring_rows, queue);
}

}  // namespace ocellus

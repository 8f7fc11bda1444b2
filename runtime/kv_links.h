// Linked images: whose keys and values were computed elsewhere, and which stand among the rows of a chunk that reads
// them. Their keys are never rewritten: attention turns its queries by the distance that the image has moved.
#pragma once

#include <algorithm>

#include "runtime/kv_cache.h"

namespace ocellus {

/// Calls visit(run) for the pieces of a linked stretch, whose image need not be committed.
template <class Visit>
void visit_linked(const SessionCache& cache, const LinkedRun& link, const TileLimits& limits, Visit visit) {
  const KvShape& shape = cache.shape();
  const int32_t size = shape.block_slots, end = link.first_slot + link.slots;
  for (int32_t slot = link.first_slot, block_end = 0; slot < end; slot = block_end) {
    block_end = std::min(end, (slot / size + 1) * size);
    const KvRun block = cache.image_block(link.ordinal, slot / size);
    KvRun run = slice_run(block, slot % size, block_end - slot, shape.head_dim);
    run.position_shift = link.position_shift;
    run.visible_from = static_cast<uint16_t>(link.visible_from);
    visit_pieces(run, limits, shape.head_dim, visit);
  }
}

}  // namespace ocellus

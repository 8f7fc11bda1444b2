// Linked images: whose keys and values were computed elsewhere, and which stand among the rows of a chunk that reads
// them. Their keys are not rotated again: attention turns its queries by the distance that the image has moved.
#pragma once

#include <algorithm>

#include "runtime/kv_cache.h"

namespace ocellus {

/// Calls visit(run) for slots [first, first + count) of a linked image, which need not be committed, block by block.
template <class Visit>
void visit_linked_blocks(const SessionCache& cache, const LinkedImage& image, int32_t first, int32_t count,
                         Visit visit) {
  const KvShape& shape = cache.shape();
  const int32_t size = shape.block_slots, end = first + count;
  for (int32_t slot = first, block_end = 0; slot < end; slot = block_end) {
    block_end = std::min(end, (slot / size + 1) * size);
    KvRun run = slice_run(cache.image_block(image.ordinal, slot / size), slot % size, block_end - slot, shape.head_dim);
    run.position_shift = image.position_shift;
    visit(run);
  }
}

}  // namespace ocellus

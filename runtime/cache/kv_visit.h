// Iteration over the slots of a SessionCache: definitions of the templates declared in kv_cache.h.
#pragma once

#include <algorithm>

#include "runtime/cache/kv_cache.h"

namespace ocellus {

template <class Visit>
void SessionCache::visit_slots(int32_t ordinal, int32_t first, int32_t count, int32_t position_shift, Visit visit,
                               bool local) const {
  const KvShape& shape = pools_->shape;
  const int32_t size = shape.block_slots, end = first + count, dim = local ? shape.local.head_dim : shape.head_dim;
  for (int32_t slot = first, block_end = 0; slot < end; slot = block_end) {
    block_end = std::min(end, (slot / size + 1) * size);
    const KvRun block = local ? local_image_block(ordinal, slot / size) : image_block(ordinal, slot / size);
    KvRun run = slice_run(block, slot % size, block_end - slot, dim);
    run.position_shift = position_shift;
    visit(run);
  }
}

template <class Visit>
void SessionCache::visit_image(int32_t ordinal, const TileLimits& limits, Visit visit) const {
  const StoredImage& image = images_.data[ordinal];
  if (image.slots == 0) return;  // reserved
  int32_t slot = image.first_slot;
  for (int32_t hole = 0; hole <= image.hole_count; ++hole) {
    const int32_t end = hole < image.hole_count ? holes_.row(ordinal)[hole] : image.slots;
    visit_slots(ordinal, slot, end - slot, image.position_shift,
                [&](const KvRun& run) { visit_pieces(run, limits, pools_->shape.head_dim, visit); });
    slot = end + 1;
  }
  for (const int32_t slots : image.again)
    visit_slots(ordinal, 0, slots, image.position_shift,
                [&](const KvRun& run) { visit_pieces(run, limits, pools_->shape.head_dim, visit); });
}

template <class Visit>
void SessionCache::visit_fixed(const TileLimits& limits, Visit visit) const {
  for (int32_t i = 0; i < own_image_count_; ++i) visit_image(i, limits, visit);
  for (int32_t i = 0; i < text_block_count_; ++i) visit_pieces(text_block(i), limits, pools_->shape.head_dim, visit);
  kept_.visit_runs(limits, visit);
}

template <class Visit>
void SessionCache::visit_live(const TileLimits& limits, Visit visit) const {
  visit_fixed(limits, visit);
  for (int32_t i = 0; i < page_count_; ++i)
    if (const KvRun run = text_page(i); run.slots > 0) visit(run);
}

}  // namespace ocellus

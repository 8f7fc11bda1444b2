#include "runtime/branches/reuse/shared_links.h"

#include <algorithm>

#include "platform/clock.h"
#include "runtime/engine/engine.h"

namespace ocellus {

bool SharedLinks::planned() const { return conversation_->engine().memory().linked.shared.planned(); }

Status SharedLinks::link(const PictureWish& wish, const PromptChunk& chunk, int32_t* ordinal, bool* found) {
  Engine& engine = conversation_->engine();
  EngineMemory& memory = engine.memory();
  SharedImages& shared = memory.linked.shared;
  const int64_t start = now_ns();
  *found = false;
  int32_t place = shared.find(wish);
  const int64_t awaited = place < 0 ? 0 : shared.image(place).awaited;
  if (awaited != 0) {  // the store may not have it in the end
    OCELLUS_TRY(wish.store->settle(*conversation_));
    shared.settle(awaited, nullptr);
    place = shared.find(wish);
  }
  if (place < 0) return {};
  if (engine.shape().reuse.copies_shared()) {
    OCELLUS_TRY(linked_cache(*conversation_).reserve_image(ordinal));
    copy_blocks(place, *ordinal, false);
  } else {
    OCELLUS_TRY(linked_cache(*conversation_).share_image(place, ordinal));
  }
  const int64_t count = wish.facts.stored_input_rows;
  if (count > 0) {
    engine.queue().join_transfers();  // the rows may be on their way from the store
    const ActivationView to = memory.linked.rows.slice_rows(chunk.linked_rows, count);
    engine.queue().copy(to.data, shared.rows(place).data, count * to.cols * to.value_bytes());
    std::copy_n(shared.picks(place), count, memory.linked.chunk.picks.data);
  }
  memory.linked.chunk.pick_count = count;
  *found = true;
  const SharedImage& image = shared.image(place);
  const bool is_due = shared.note_link(place);
  if (wish.store != nullptr) wish.store->note_found(engine, wish, image.mark, is_due);
  const double spent_ms = elapsed_ms(start, now_ns());
  conversation_->stats().note_shared_hit(image.computed_ms > 0 ? image.computed_ms - spent_ms : 0);
  return {};
}

/// Copies a place's blocks to those of a session's image, or back.
void SharedLinks::copy_blocks(int32_t place, int32_t ordinal, bool to_place) {
  const SessionCache& cache = linked_cache(*conversation_);
  KvPools& pools = conversation_->engine().memory().pools;
  for (int32_t b = 0; b < cache.blocks_per_image(); ++b) {
    std::byte* const shared = pools.blocks.address(pools.shared.blocks(place)[b]);
    std::byte* const own = cache.image_block(ordinal, b).data;
    conversation_->engine().queue().copy(to_place ? shared : own, to_place ? own : shared, cache.shape().block_bytes());
  }
}

void* SharedLinks::rows_of(int32_t ordinal) const {
  const int32_t place = linked_cache(*conversation_).place_of(ordinal);
  return place < 0 ? nullptr : conversation_->engine().memory().linked.shared.rows(place).data;
}

void SharedLinks::keep(int32_t ordinal, const PictureWish& wish, SharedImage image, bool computed,
                       const PromptChunk& chunk) {
  if (!planned()) return;
  Engine& engine = conversation_->engine();
  EngineMemory& memory = engine.memory();
  KvPools& pools = memory.pools;
  const bool copies = engine.shape().reuse.copies_shared();
  const int32_t place = copies ? pools.shared.take(pools.blocks) : linked_cache(*conversation_).place_of(ordinal);
  image.store = wish.store == nullptr ? 0 : wish.store->serial();
  image.owner = wish.owner;
  image.facts = wish.facts;
  const int64_t count = image.facts.stored_input_rows;
  if (copies) {
    engine.queue().join_transfers();
    copy_blocks(place, ordinal, true);
  }
  std::copy_n(memory.linked.chunk.picks.data, count, memory.linked.shared.picks(place));
  if (count > 0 && (copies || computed)) {
    const ActivationView from = memory.linked.rows.slice_rows(chunk.linked_rows, count);
    engine.queue().copy(memory.linked.shared.rows(place).data, from.data, count * from.cols * from.value_bytes());
  }
  memory.linked.shared.keep(place, image);
  if (copies) pools.shared.release(place, pools.blocks);
}

}  // namespace ocellus

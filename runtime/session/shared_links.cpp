#include "runtime/session/shared_links.h"

#include <algorithm>

#include "platform/clock.h"
#include "runtime/engine/engine.h"

namespace ocellus {

bool SharedLinks::planned() const { return conversation_.engine().memory().shared_images.planned(); }

Status SharedLinks::link(const EntryWish& wish, const PromptChunk& chunk, int32_t* ordinal, const SharedImage** image) {
  Engine& engine = conversation_.engine();
  EngineMemory& memory = engine.memory();
  SharedImages& shared = memory.shared_images;
  const int64_t start = now_ns();
  *image = nullptr;
  int32_t place = shared.find(wish);
  const int64_t store = place < 0 ? 0 : shared.image(place).store;
  if (store != 0) {  // the library may not have it in the end
    OCELLUS_TRY(engine.library_traffic().wait_for_writes(conversation_.stop()));
    note_last_store();
    shared.note_stored(store, nullptr);
    place = shared.find(wish);
  }
  if (place < 0) return {};
  OCELLUS_TRY(conversation_.linked_cache().share_image(place, ordinal));
  const int64_t count = wish.facts.stored_input_rows;
  if (count > 0) {
    engine.queue().join_transfers();  // the rows may be on their way from the library
    const ActivationView to = memory.linked_rows.slice_rows(chunk.linked_rows, count);
    engine.queue().copy(to.data, shared.rows(place).data, count * to.cols * to.value_bytes());
    std::copy_n(shared.picks(place), count, memory.image_chunk.picks.data);
  }
  memory.image_chunk.pick_count = count;
  *image = &shared.image(place);
  if (shared.note_link(place)) engine.library_traffic().note_use(*wish.library, (*image)->stamp.key);
  const double spent_ms = elapsed_ms(start, now_ns()), computed_ms = (*image)->computed_ms;
  conversation_.stats().note_shared_hit(computed_ms > 0 ? computed_ms - spent_ms : 0);
  return {};
}

void SharedLinks::keep(int32_t ordinal, const EntryWish& wish, SharedImage image) {
  EngineMemory& memory = conversation_.engine().memory();
  const int32_t place = conversation_.linked_cache().place_of(ordinal);
  if (place < 0) return;
  image.library = wish.library == nullptr ? 0 : wish.library->serial();
  image.owner = wish.owner;
  image.facts = wish.facts;
  std::copy_n(memory.image_chunk.picks.data, image.facts.stored_input_rows, memory.shared_images.picks(place));
  memory.shared_images.keep(place, image);
}

void* SharedLinks::rows_of(int32_t ordinal) const {
  const int32_t place = conversation_.linked_cache().place_of(ordinal);
  return place < 0 ? nullptr : conversation_.engine().memory().shared_images.rows(place).data;
}

void SharedLinks::keep_rows(int32_t ordinal, int64_t count, const PromptChunk& chunk) {
  Engine& engine = conversation_.engine();
  const ActivationView from = engine.memory().linked_rows.slice_rows(chunk.linked_rows, count);
  if (void* const to = rows_of(ordinal); to != nullptr && count > 0)
    engine.queue().copy(to, from.data, count * from.cols * from.value_bytes());
}

void SharedLinks::note_last_store() {
  Engine& engine = conversation_.engine();
  if (!planned()) return;
  const StoredEntry stored = engine.library_traffic().last_stored();
  engine.memory().shared_images.note_stored(stored.number, stored.is_stamped ? &stored.stamp : nullptr);
}

}  // namespace ocellus

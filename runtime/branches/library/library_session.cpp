#include "runtime/branches/library/library_session.h"

#include <bit>
#include <cstring>

#include "platform/clock.h"
#include "runtime/engine/engine.h"
#include "runtime/session/picture_rows.h"

namespace ocellus {
namespace {

/// The contents of a StoreMark.
struct LibraryMark {
  LibraryPart part = LibraryPart::kOwn;
  EntryStamp stamp = {};
};

StoreMark to_mark(LibraryPart part, const EntryStamp& stamp) {
  return std::bit_cast<StoreMark>(LibraryMark{part, stamp});
}

/// Calls visit(bytes in the cache, count), layer by layer: all heads of a layer in one of the image's blocks.
template <class Visit>
void visit_layers(const SessionCache& cache, int32_t ordinal, Visit visit) {
  const KvShape& kv = cache.shape();
  for (int32_t layer = 0; layer < kv.kept_layers(); ++layer)
    for (int32_t b = 0; b < cache.blocks_per_image(); ++b)
      visit(cache.image_block(ordinal, b).data + kv.kept_offset(layer), kv.kept_bytes(layer));
}

/// Copies layers to the image's blocks as they arrive, until the entry is whole; then the transfers are still open. If
/// it is not found, is damaged or a stop comes first, nothing is copied any more.
Status copy_layers(int load, int32_t ordinal, Conversation& conversation, LibraryTraffic& traffic, LoadedEntry* entry) {
  Queue& queue = conversation.engine().queue();
  Status status;
  int64_t copied = 0;
  queue.begin_transfers();
  while (status.ok() && !entry->is_whole) {
    status = traffic.wait(load, copied, conversation.stop(), entry);
    if (!status.ok() || entry->bytes == nullptr) continue;
    int64_t at = 0;
    visit_layers(linked_cache(conversation), ordinal, [&](std::byte* data, int64_t count) {
      if (at >= copied && at + count <= entry->byte_count) queue.transfer(data, entry->bytes + at, count);
      at += count;
    });
    copied = entry->byte_count;
  }
  if (status.ok() && entry->bytes != nullptr) return status;
  queue.end_transfers(load);
  queue.wait_for_transfers(load);
  if (!status.ok()) traffic.abandon(load);
  return status;
}

/// Gives the image that was stored last the stamp of its file; one that was not stored is found no more.
void settle_last(Engine& engine, LibraryTraffic& traffic) {
  const StoredEntry stored = traffic.last_stored(LibraryTraffic::kAnySession);
  const StoreMark mark = to_mark(stored.part, stored.stamp);
  engine.memory().linked.shared.settle(stored.number, stored.is_stamped ? &mark : nullptr);
}

}  // namespace

const SessionKeep& LibrarySession::outcome() {
  if (keep_.outcome != SessionKeep::Outcome::kStoring) return keep_;
  const StoredEntry stored = stores_->traffic().last_stored(slot_);
  keep_.note_stored(stored.key, stored.status, stored.failure);
  return keep_;
}

Status LibrarySession::wait_for_outcome(const StopSignal& stop) {
  return keep_.outcome == SessionKeep::Outcome::kStoring ? stores_->traffic().wait_for_writes(stop) : Status();
}

bool LibrarySession::is_current(const StoreMark& mark) const {
  return library_->is_current(std::bit_cast<LibraryMark>(mark).stamp);
}

bool LibrarySession::looks_ahead() const { return stores_->ahead().has_room(); }

void LibrarySession::look_ahead(Engine& engine, const PictureWish& wish) {
  stores_->ahead().add(wish.facts);
  start_loads(engine, wish);
}

bool LibrarySession::next_ahead(EntryFacts* facts) { return stores_->ahead().next(facts); }

void LibrarySession::forget_ahead() { stores_->ahead().clear(stores_->traffic()); }

EntryWish LibrarySession::wish_for(const PictureWish& wish) const {
  return {library_, wish.owner, wish.facts, keep_.only_there && !wish.by_name, keep_.part};
}

void LibrarySession::start_loads(Engine& engine, const PictureWish& wish) {
  stores_->ahead().start_loads(wish, wish_for(wish), engine.memory().linked.shared, stores_->traffic(), engine.queue());
}

Status LibrarySession::recall(Conversation& conversation, const PictureWish& wish, int32_t ordinal,
                              const PromptChunk& chunk, bool* found) {
  OCELLUS_TRY(load_entry(conversation, wish, ordinal, chunk, found));
  if (!wish.by_name) {
    start_loads(conversation.engine(), wish);
    if (!*found) clear_blocks(conversation, ordinal);
  } else if (!*found) {
    return OCELLUS_FAIL(Code::kBadFile,
                        "the library's entry is damaged or was removed while it was read: add the picture");
  }
  return {};
}

/// All or nothing: the image's blocks are used only if every one is there and intact.
Status LibrarySession::load_entry(Conversation& conversation, const PictureWish& wish, int32_t ordinal,
                                  const PromptChunk& chunk, bool* found) {
  Engine& engine = conversation.engine();
  const TraceRange range(engine.trace(), "load image");
  const int64_t start = now_ns();
  EngineMemory& memory = engine.memory();
  LibraryTraffic& traffic = stores_->traffic();
  Queue& queue = engine.queue();
  PromptStats& stats = conversation.stats();
  const EntryFacts& facts = wish.facts;
  LoadedEntry entry;
  int load = wish.by_name ? -1 : stores_->ahead().take_load();
  if (load < 0) {
    stores_->ahead().give_way(traffic);
    OCELLUS_TRY(traffic.begin_now(wish_for(wish), conversation.stop(), queue, &load));
  }
  OCELLUS_TRY(copy_layers(load, ordinal, conversation, traffic, &entry));
  *found = entry.bytes != nullptr;
  if (*found) {
    PictureLinks& links = *conversation.links();
    if (facts.stored_input_rows > 0) {
      const std::byte* const rows = entry.bytes + linked_cache(conversation).shape().image_bytes();
      queue.transfer(memory.linked.rows.half_row(chunk.linked_rows), rows, input_row_bytes(facts));
      if (void* const kept = links.shared_rows(ordinal); kept != nullptr)
        queue.transfer(kept, rows, input_row_bytes(facts));
      std::memcpy(memory.linked.chunk.picks.data, rows + input_row_bytes(facts),
                  static_cast<size_t>(pick_bytes(facts)));
    }
    queue.end_transfers(load);
    memory.linked.chunk.pick_count = facts.stored_input_rows;
    keep_.note_found(entry.stamp.key, entry.part);
    if (entry.is_stamped)
      links.share(ordinal, wish, {.mark = to_mark(entry.part, entry.stamp), .computed_ms = entry.computed_ms}, chunk);
  }
  traffic.end(load, queue);
  const double spent_ms = elapsed_ms(start, now_ns());
  stats.prefill_ms += spent_ms;
  if (*found)
    stats.store.note_hit(entry.from_memory ? 0 : entry.byte_count,
                         entry.computed_ms > 0 ? entry.computed_ms - spent_ms : 0);
  return queue.status();
}

/// An image may leave slots of its blocks unwritten, which are stored with it: they must not hold data of another
/// session's image.
void LibrarySession::clear_blocks(Conversation& conversation, int32_t ordinal) {
  Queue& queue = conversation.engine().queue();
  const SessionCache& cache = linked_cache(conversation);
  const int64_t bytes = cache.shape().block_bytes();
  std::byte* const staging = stores_->memory().staging.data;
  queue.wait_for_copies();
  std::memset(staging, 0, static_cast<size_t>(bytes));
  for (int32_t b = 0; b < cache.blocks_per_image(); ++b) queue.copy(cache.image_block(ordinal, b).data, staging, bytes);
  queue.note_copies();
}

void LibrarySession::note_found(Engine& engine, const PictureWish& wish, const StoreMark& mark, bool is_due) {
  const LibraryMark found = std::bit_cast<LibraryMark>(mark);
  if (is_due) stores_->traffic().note_use(*library_, found.stamp.key);
  keep_.note_found(found.stamp.key, found.part);
  if (wish.by_name) return;
  if (const int load = stores_->ahead().take_load(); load >= 0) stores_->traffic().abandon(load);
  start_loads(engine, wish);
}

/// The staging is free: its former contents have been transferred.
Status LibrarySession::note_rows(const PromptChunk& chunk, Queue& queue) {
  const LibraryMemory& memory = stores_->memory();
  const int64_t width = memory.embedding.cols;
  const int64_t room = memory.staging.cols / (width * int64_t{sizeof(float)});
  const HostView<float> rows(reinterpret_cast<float*>(memory.staging.data), room, width);
  return average_image_rows(chunk, rows, memory.embedding.data, queue);
}

/// Passes the computed image to the writing thread.
int64_t LibrarySession::keep(Conversation& conversation, const PictureWish& wish, int32_t ordinal, double computed_ms,
                             const PromptChunk& chunk) {
  Engine& engine = conversation.engine();
  const TraceRange range(engine.trace(), "keep image");
  EngineMemory& memory = engine.memory();
  LibraryTraffic& traffic = stores_->traffic();
  Queue& queue = engine.queue();
  const EntryFacts& facts = wish.facts;
  std::byte* to = traffic.wait_for_room(slot_, conversation.stop());
  keep_.note_storing();
  if (to == nullptr) return 0;
  settle_last(engine, traffic);
  visit_layers(linked_cache(conversation), ordinal, [&](std::byte* data, int64_t count) {
    queue.copy(to, data, count);
    to += count;
  });
  if (facts.stored_input_rows > 0) {
    queue.copy(to, memory.linked.rows.half_row(chunk.linked_rows), input_row_bytes(facts));
    std::memcpy(to + input_row_bytes(facts), memory.linked.chunk.picks.data, static_cast<size_t>(pick_bytes(facts)));
  }
  if (const Status copied = queue.finish(); !copied.ok()) {
    traffic.give_up(slot_, copied);
    return 0;
  }
  return traffic.store({.session = slot_,
                        .wish = wish_for(wish),
                        .labels = keep_.labels,
                        .embedding = stores_->memory().embedding.data,
                        .computed_ms = computed_ms});
}

Status LibrarySession::settle(Conversation& conversation) {
  OCELLUS_TRY(stores_->traffic().wait_for_writes(conversation.stop()));
  settle_last(conversation.engine(), stores_->traffic());
  return {};
}

}  // namespace ocellus

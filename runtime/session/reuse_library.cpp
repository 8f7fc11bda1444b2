// Linked images that are read from or written to the image library: the blocks of an image as in the cache, and the
// embeddings of the rows that are computed in place. Images from the library are bit-equal to computed ones.
#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "platform/clock.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/picture_source.h"
#include "runtime/library/image_library.h"
#include "runtime/session/reuse.h"

namespace ocellus {
namespace {

/// Calls visit(bytes in the cache, count), layer by layer: all heads of a layer in one of the image's blocks.
template <class Visit>
void visit_layers(const SessionCache& cache, int32_t ordinal, Visit visit) {
  const KvShape& kv = cache.shape();
  for (int32_t layer = 0; layer < kv.kept_layers(); ++layer)
    for (int32_t b = 0; b < cache.blocks_per_image(); ++b)
      visit(cache.image_block(ordinal, b).data + kv.kept_offset(layer), kv.kept_bytes(layer));
}

/// Hash of everything else that the bytes of an entry depend on. Staged images are the same under every policy.
uint64_t prefix_id(const VocabularyFacts& facts, const EngineShape& shape) {
  const bool staged = shape.reuse.staged;
  const float ranges[2] = {staged ? 1.0f : shape.policy.key_range, staged ? 1.0f : shape.policy.value_range};
  const KvShape& kv = shape.linked_kv();
  std::byte bytes[17 + OCELLUS_MOST_LAYER_BITS] = {};
  bytes[16 + OCELLUS_MOST_LAYER_BITS] = static_cast<std::byte>(shape.reuse.picks());
  const TokenId start = facts.start_token();
  std::memcpy(bytes, &start, sizeof start);
  std::memcpy(bytes + sizeof start, ranges, sizeof ranges);
  // Equal bits in all layers are in the facts. Keys' bits, and values' if they differ, are two numbers of one bit each.
  const auto code_of = [](KvFormat format) {
    const int32_t keys = key_bits(format), values = value_bits(format);
    return static_cast<std::byte>(keys == values ? keys : keys + 16 * values);
  };
  if (key_bits(kv.format) != value_bits(kv.format)) bytes[16] = code_of(kv.format);
  for (int32_t i = 0; i < kv.layer_formats.count; ++i) bytes[16 + i] = code_of(kv.layer_formats.formats[i]);
  return library_checksum(bytes, sizeof bytes);
}

/// Copies layers to the image's blocks as they arrive, until the entry is whole; then the transfers are still open. If
/// it is not found, is damaged or a stop comes first, nothing is copied any more.
Status copy_layers(int load, int32_t ordinal, Conversation& conversation, LoadedEntry* entry) {
  LibraryTraffic& traffic = conversation.engine().library_traffic();
  Queue& queue = conversation.engine().queue();
  Status status;
  int64_t copied = 0;
  queue.begin_transfers();
  while (status.ok() && !entry->is_whole) {
    status = traffic.wait(load, copied, conversation.stop(), entry);
    if (!status.ok() || entry->bytes == nullptr) continue;
    int64_t at = 0;
    visit_layers(conversation.linked_cache(), ordinal, [&](std::byte* data, int64_t count) {
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

}  // namespace

EntryFacts entry_facts(Engine& engine, int32_t view_count, int64_t row_count) {
  const EngineShape& shape = engine.shape();
  const KvShape& kv = shape.linked_kv();
  EntryFacts facts;
  facts.model = engine.model_fingerprint();
  if (engine.model().is_made_up()) facts.format_version |= kMadeUpModel;
  facts.prefix_id = prefix_id(engine.tokenizer().facts(), shape);
  facts.layer_count = kv.kept_layers();
  facts.kv_heads = kv.kv_heads;
  facts.head_dim = kv.head_dim;
  facts.bits = key_bits(kv.format);
  facts.scale_form = static_cast<int32_t>(kv.scales);
  facts.token_count = static_cast<int32_t>(row_count);
  facts.block_rows = kv.block_slots;
  facts.view_count = view_count;
  facts.embedding_width = static_cast<int32_t>(engine.memory().linked_rows.cols);
  facts.stored_input_rows = static_cast<int32_t>(shape.input_rows_of(view_count, row_count));
  return facts;
}

EntryWish Reuse::wish_for(const EntryFacts& facts) const {
  return {library_, owner_, facts, keep_.only_there, keep_.part};
}

/// Not for images that are read in their prompt: their identity includes all that stands before them, which is not
/// known ahead.
Status Reuse::look_ahead(const Picture& picture, const ViewPlan& plan) {
  Engine& engine = conversation_.engine();
  EntryFacts facts;
  OCELLUS_TRY(identify(picture, plan, &facts));
  engine.pictures_ahead().add(facts);
  engine.pictures_ahead().start_loads(wish_for({}), engine.memory().shared_images, engine.library_traffic(),
                                      engine.queue());
  return {};
}

bool Reuse::looks_ahead() const {
  Engine& engine = conversation_.engine();
  return library_ != nullptr && links() && !engine.shape().reuse.in_context() && engine.pictures_ahead().has_room();
}

void Reuse::forget_ahead() {
  Engine& engine = conversation_.engine();
  if (library_ != nullptr) engine.pictures_ahead().clear(engine.library_traffic());
}

/// A failing library is no failure of the session: the image is computed.
Status Reuse::link_known(const Picture& picture, const ViewPlan& plan, PromptChunk& chunk, int32_t* ordinal) {
  Engine& engine = conversation_.engine();
  PicturesAhead& ahead = engine.pictures_ahead();
  EntryFacts facts;
  int load = -1;
  if (!ahead.current(&facts, &load)) OCELLUS_TRY(identify(picture, plan, &facts));
  bool found = false;
  OCELLUS_TRY(find_entry(facts, load, chunk, ordinal, &found));
  if (library_ != nullptr) {
    ahead.start_loads(wish_for({}), engine.memory().shared_images, engine.library_traffic(), engine.queue());
    conversation_.stats().note_search(found);
  }
  if (!found) {
    const int64_t start = now_ns();
    prepare_to_keep(*ordinal);
    OCELLUS_TRY(engine.shape().reuse.in_context() ? read_in_context(picture, plan, *ordinal, chunk)
                                                  : read_alone(picture, plan, *ordinal, chunk));
    OCELLUS_TRY(engine.queue().finish());
    keep_image(facts, *ordinal, elapsed_ms(start, now_ns()), chunk);
  }
  ahead.finish_current();
  uint64_t& prefix = conversation_.state().prefix_hash;
  for (const uint64_t part : {facts.content.high, facts.content.low, static_cast<uint64_t>(facts.tile_cols)})
    prefix = prefix_of(prefix, part);
  return engine.queue().status();
}

/// Finds an image on the device or in the library, tier by tier, as image number *ordinal; reserves one that is not
/// found. `load`: as for load_entry.
Status Reuse::find_entry(const EntryFacts& facts, int load, const PromptChunk& chunk, int32_t* ordinal, bool* found) {
  const SharedImage* image = nullptr;
  Status status = shared_.link(wish_for(facts), chunk, ordinal, &image);
  *found = status.ok() && image != nullptr;
  if (status.ok() && !*found) status = conversation_.linked_cache().reserve_image(ordinal);
  if (load >= 0 && (*found || !status.ok())) conversation_.engine().library_traffic().abandon(load);
  OCELLUS_TRY(status);
  if (*found) {
    if (library_ != nullptr) keep_.note_found(image->stamp.key, image->part);
    return {};
  }
  return library_ == nullptr ? Status() : load_entry(facts, load, *ordinal, chunk, found);
}

Status Reuse::recall(const EntryFacts& facts, const ViewPlan& plan, PromptChunk& chunk, bool* found) {
  int32_t ordinal = 0;
  *found = false;
  if (library_ == nullptr && !shared_.planned()) return {};
  OCELLUS_TRY(find_entry(facts, -1, chunk, &ordinal, found));
  if (*found) return add_links(plan, ordinal, chunk);
  conversation_.engine().queue().join_transfers();
  conversation_.linked_cache().release_reserved_images(ordinal);
  return {};
}

Status Reuse::link_entry(const EntryFacts& facts, const ViewPlan& plan, PromptChunk& chunk) {
  bool found = false;
  // The part in which computed images are kept does not matter here.
  const bool only_there = std::exchange(keep_.only_there, false);
  const Status status = recall(facts, plan, chunk, &found);
  keep_.only_there = only_there;
  OCELLUS_TRY(status);
  if (!found)
    return OCELLUS_FAIL(Code::kBadFile,
                        "the library's entry is damaged or was removed while it was read: add the picture");
  ++conversation_.stats().library_hits;
  return {};
}

Status Reuse::identify(const Picture& picture, const ViewPlan& plan, EntryFacts* facts) {
  Engine& engine = conversation_.engine();
  const TraceRange range(engine.trace(), "identify image");
  const EngineShape& shape = engine.shape();
  const ArenaScope scope(engine.arena());
  ImageScratch scratch;
  OCELLUS_TRY(engine.take_scratch(&scratch));
  const int64_t start = now_ns();
  ImageHash hash;
  PictureSource source(shape.pictures, plan, scratch, engine.memory().image_decoder, engine.queue());
  OCELLUS_TRY(source.identify(picture, &hash));
  if (picture.next != nullptr) {
    ImageHash second;
    OCELLUS_TRY(source.identify(*picture.next, &second));
    hash = pair_hash(hash, second);
  }
  conversation_.stats().preprocess_ms += elapsed_ms(start, now_ns());
  *facts = entry_facts(engine, plan.view_count(), plan.row_count());
  facts->content = {hash.high, hash.low};
  if (shape.reuse.in_context()) facts->prefix_id = prefix_of(facts->prefix_id, conversation_.state().prefix_hash);
  facts->tile_cols = plan.is_tall() ? 1 : plan.tile_cols;
  facts->shared_rows = static_cast<int32_t>(plan.row_count() - plan.position_count());
  return {};
}

/// All or nothing: the image's blocks are used only if every one is there and intact. `load`: a load begun before; -1:
/// begins one now.
Status Reuse::load_entry(const EntryFacts& facts, int load, int32_t ordinal, const PromptChunk& chunk, bool* found) {
  Engine& engine = conversation_.engine();
  const TraceRange range(engine.trace(), "load image");
  const int64_t start = now_ns();
  EngineMemory& memory = engine.memory();
  LibraryTraffic& traffic = engine.library_traffic();
  Queue& queue = engine.queue();
  PromptStats& stats = conversation_.stats();
  LoadedEntry entry;
  if (load < 0) {
    engine.pictures_ahead().give_way(traffic);
    OCELLUS_TRY(traffic.begin_now(wish_for(facts), conversation_.stop(), queue, &load));
  }
  OCELLUS_TRY(copy_layers(load, ordinal, conversation_, &entry));
  *found = entry.bytes != nullptr;
  if (*found) {
    if (facts.stored_input_rows > 0) {
      const std::byte* const rows = entry.bytes + conversation_.linked_cache().shape().image_bytes();
      queue.transfer(memory.linked_rows.half_row(chunk.linked_rows), rows, input_row_bytes(facts));
      if (void* const kept = shared_.rows_of(ordinal); kept != nullptr)
        queue.transfer(kept, rows, input_row_bytes(facts));
      std::memcpy(memory.image_chunk.picks.data, rows + input_row_bytes(facts), static_cast<size_t>(pick_bytes(facts)));
    }
    queue.end_transfers(load);
    memory.image_chunk.pick_count = facts.stored_input_rows;
    keep_.note_found(entry.stamp.key, entry.part);
    if (entry.is_stamped)
      shared_.keep(ordinal, wish_for(facts),
                   {.part = entry.part, .stamp = entry.stamp, .computed_ms = entry.computed_ms}, false, chunk);
  }
  traffic.end(load, queue);
  const double spent_ms = elapsed_ms(start, now_ns());
  stats.prefill_ms += spent_ms;
  if (*found)
    stats.note_hit(entry.from_memory ? 0 : entry.byte_count, entry.computed_ms > 0 ? entry.computed_ms - spent_ms : 0);
  return queue.status();
}

/// An image may leave slots of its blocks unwritten, which are stored with it: they must not hold data of another
/// session's image.
void Reuse::prepare_to_keep(int32_t ordinal) {
  if (library_ == nullptr) return;
  EngineMemory& memory = conversation_.engine().memory();
  Queue& queue = conversation_.engine().queue();
  const SessionCache& cache = conversation_.linked_cache();
  const int64_t bytes = cache.shape().block_bytes();
  queue.wait_for_copies();
  std::memset(memory.library_staging.data, 0, static_cast<size_t>(bytes));
  for (int32_t b = 0; b < cache.blocks_per_image(); ++b)
    queue.copy(cache.image_block(ordinal, b).data, memory.library_staging.data, bytes);
  queue.note_copies();
}

/// Keeps it in the library and in its shared place. An image that the library does not have is not found there either.
void Reuse::keep_image(const EntryFacts& facts, int32_t ordinal, double computed_ms, const PromptChunk& chunk) {
  const int64_t store = library_ == nullptr ? 0 : store_image(facts, ordinal, computed_ms, chunk);
  if (library_ != nullptr && store == 0) return;
  shared_.keep(ordinal, wish_for(facts), {.part = keep_.part, .store = store, .computed_ms = computed_ms}, true, chunk);
}

/// Passes the computed image to the writing thread. Returns the number of the store; 0 if it was stopped.
int64_t Reuse::store_image(const EntryFacts& facts, int32_t ordinal, double computed_ms, const PromptChunk& chunk) {
  Engine& engine = conversation_.engine();
  const TraceRange range(engine.trace(), "keep image");
  EngineMemory& memory = engine.memory();
  LibraryTraffic& traffic = engine.library_traffic();
  Queue& queue = engine.queue();
  std::byte* to = traffic.wait_for_room(conversation_.slot(), conversation_.stop());
  keep_.note_storing();
  if (to == nullptr) return 0;
  shared_.note_last_store();
  visit_layers(conversation_.linked_cache(), ordinal, [&](std::byte* data, int64_t count) {
    queue.copy(to, data, count);
    to += count;
  });
  if (facts.stored_input_rows > 0) {
    queue.copy(to, memory.linked_rows.half_row(chunk.linked_rows), input_row_bytes(facts));
    std::memcpy(to + input_row_bytes(facts), memory.image_chunk.picks.data, static_cast<size_t>(pick_bytes(facts)));
  }
  if (const Status copied = queue.finish(); !copied.ok()) {
    traffic.give_up(conversation_.slot(), copied);
    return 0;
  }
  return traffic.store({.session = conversation_.slot(),
                        .wish = wish_for(facts),
                        .labels = keep_.labels,
                        .embedding = memory.library_embedding.data,
                        .computed_ms = computed_ms});
}

/// The staging is free: its former contents have been transferred.
void Reuse::note_embedding(const PromptChunk& chunk) {
  if (library_ == nullptr) return;
  EngineMemory& memory = conversation_.engine().memory();
  auto* const staging = reinterpret_cast<float*>(memory.library_staging.data);
  // A failure stays in the queue.
  (void)average_image_rows(chunk, staging, memory.library_embedding.data, conversation_.engine().queue());
}

}  // namespace ocellus

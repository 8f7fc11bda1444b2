// Linked images that come from the image library, or go there: the blocks of an image as they lie in the cache, and the
// embeddings of the rows that are read in place. What comes from the library gives the same bits as what is computed.
#include <algorithm>
#include <cstring>
#include <span>

#include "platform/clock.h"
#include "runtime/engine.h"
#include "runtime/image_library.h"
#include "runtime/picture_source.h"
#include "runtime/session.h"
#include "runtime/session_retrieve.h"

namespace ocellus {
namespace {

/// Bytes of all heads of a layer, in one of the image's blocks.
int64_t layer_bytes(const KvShape& kv, int32_t layer) { return kv.block_layout(layer).padded_bytes * kv.kv_heads; }

/// Images of up to so many bytes are one block of their entry, since blocks are padded; others are one for every layer,
/// which can then be read one by one.
constexpr int64_t kMostTogether = int64_t{1} << 20;

/// Of an entry's last block: the input rows, then which rows of the image they are.
int64_t input_row_bytes(const EntryFacts& facts) {
  return int64_t{facts.stored_input_rows} * facts.embedding_width * int64_t{sizeof(float)};
}
int64_t pick_bytes(const EntryFacts& facts) { return facts.stored_input_rows * int64_t{sizeof(int32_t)}; }

/// Of the entry's blocks: the layers, then the input rows.
int64_t entry_block_bytes(const KvShape& kv, const EntryFacts& facts, int32_t block) {
  if (block == kv.layer_count) return input_row_bytes(facts) + pick_bytes(facts);
  if (kv.image_bytes() > kMostTogether) return kv.blocks_per_image() * layer_bytes(kv, block);
  return block == 0 ? kv.image_bytes() : 0;
}

/// Calls visit(bytes in the cache, count), layer by layer.
template <class Visit>
void visit_layers(const SessionCache& cache, int32_t ordinal, Visit visit) {
  const KvShape& kv = cache.shape();
  for (int32_t layer = 0; layer < kv.layer_count; ++layer)
    for (int32_t b = 0; b < cache.blocks_per_image(); ++b)
      visit(cache.image_block(ordinal, b).data + kv.layer(layer).offset, layer_bytes(kv, layer));
}

/// Everything that the bytes of an entry depend on beside its other facts.
uint64_t prefix_id(const VocabularyFacts& facts, const EngineShape& shape) {
  const float ranges[2] = {shape.policy.key_range, shape.policy.value_range};
  std::byte bytes[17 + OCELLUS_MOST_LAYER_BITS] = {};
  bytes[16 + OCELLUS_MOST_LAYER_BITS] = static_cast<std::byte>(shape.picks);
  const int32_t start = facts.add_bos ? facts.bos : kNoToken;
  std::memcpy(bytes, &start, sizeof start);
  std::memcpy(bytes + sizeof start, ranges, sizeof ranges);
  for (int32_t i = 0; i < shape.kv.layer_formats.count; ++i)
    bytes[16 + i] = static_cast<std::byte>(kv_bits(shape.kv.layer_formats.formats[i]));
  return library_checksum(bytes, sizeof bytes);
}

}  // namespace

EntryFacts entry_facts(Engine& engine, int32_t view_count) {
  const EngineShape& shape = engine.shape();
  EntryFacts facts;
  facts.model = engine.model_fingerprint();
  facts.prefix_id = prefix_id(engine.tokenizer().facts(), shape);
  facts.layer_count = shape.kv.layer_count;
  facts.kv_heads = shape.kv.kv_heads;
  facts.head_dim = shape.kv.head_dim;
  facts.bits = kv_bits(shape.kv.format);
  facts.scale_form = static_cast<int32_t>(shape.kv.scales);
  facts.token_count = static_cast<int32_t>(view_count * engine.vision().config.tokens_per_view());
  facts.block_rows = shape.kv.block_slots;
  facts.view_count = view_count;
  facts.embedding_width = static_cast<int32_t>(engine.memory().linked_rows.cols);
  facts.stored_input_rows = static_cast<int32_t>(shape.rows_in_place(view_count));
  return facts;
}

Status Session::set_library(ImageLibrary* library, std::string_view owner) {
  if (library != nullptr && !engine_->shape().has_library)
    return OCELLUS_FAIL(Code::kBadArgument, "no image library was planned: plan one");
  if (library != nullptr && (!is_owner_name(owner) || !owner_.assign(owner)))
    return OCELLUS_FAIL(Code::kBadArgument, "an owner has 1 to 64 characters of A-Z, a-z, 0-9, '.', '_' and '-'");
  if (library != nullptr) OCELLUS_TRY(engine_->fingerprint_model());
  library_ = library;
  keep_ = {};
  return {};
}

/// A library that fails is no reason to fail: the image is computed.
Status Session::recall_or_read(const Picture& picture, const ViewPlan& plan, int32_t ordinal) {
  EntryFacts facts;
  OCELLUS_TRY(describe_entry(picture, plan, &facts));
  bool found = false;
  if (!load_entry(facts, ordinal, &found).ok() || !engine_->queue().ok()) found = false;
  OCELLUS_TRY(engine_->queue().status());
  (found ? prompt_.library_hits : prompt_.library_misses) += 1;
  if (found) return {};
  clear_blocks(ordinal);
  OCELLUS_TRY(read_alone(picture, plan));
  OCELLUS_TRY(engine_->queue().finish());
  (void)keep_entry(facts, ordinal);
  return engine_->queue().status();
}

Status Session::describe_entry(const Picture& picture, const ViewPlan& plan, EntryFacts* facts) {
  const EngineShape& shape = engine_->shape();
  const ArenaScope scope(engine_->arena());
  ImageScratch scratch;
  OCELLUS_TRY(scratch.lay_out(engine_->model(), shape, engine_->memory().picture_staging, engine_->arena()));
  const int64_t start = now_ns();
  ImageHash hash;
  OCELLUS_TRY(PictureSource(shape, plan, scratch, engine_->queue()).identify(picture, &hash));
  prompt_.preprocess_ms += elapsed_ms(start, now_ns());
  *facts = entry_facts(*engine_, plan.view_count);
  facts->content = {hash.high, hash.low};
  facts->tile_cols = plan.tile_cols;
  return {};
}

/// All or nothing: only when every block is there and right does the cache change.
Status Session::load_entry(const EntryFacts& facts, int32_t ordinal, bool* found) {
  const int64_t start = now_ns();
  EngineMemory& memory = engine_->memory();
  const KvShape& kv = cache().shape();
  Queue& queue = engine_->queue();
  LibraryEntry entry;
  OCELLUS_TRY(keep_.only_there ? library_->find_in(owner_.view(), keep_.part, facts, &entry, found)
                               : library_->find(owner_.view(), facts, &entry, found));
  if (!*found) return {};
  queue.wait_for_copies();
  std::byte* to = memory.library_staging.data;
  for (int32_t block = 0; block <= kv.layer_count && *found; ++block) {
    const int64_t bytes = entry_block_bytes(kv, facts, block);
    *found = entry.block_bytes(block) == bytes;
    if (*found && bytes > 0) OCELLUS_TRY(entry.read_block(block, {to, static_cast<size_t>(bytes)}, found));
    to += bytes;
  }
  if (!*found) return {};
  const std::byte* from = memory.library_staging.data;
  visit_layers(cache(), ordinal, [&](std::byte* data, int64_t count) {
    queue.copy(data, from, count);
    from += count;
  });
  memory.image_chunk.pick_count = facts.stored_input_rows;
  if (facts.stored_input_rows > 0) {
    queue.copy(memory.linked_rows.row(memory.chunk.linked_rows), from, input_row_bytes(facts));
    std::memcpy(memory.image_chunk.picks.data, from + input_row_bytes(facts), static_cast<size_t>(pick_bytes(facts)));
  }
  queue.note_copies();
  keep_.note_found(entry.key(), entry.part());
  prompt_.prefill_ms += elapsed_ms(start, now_ns());
  return queue.status();
}

/// An image may leave slots of its blocks unwritten, and those are kept with it: they must not hold what another
/// session's image was.
void Session::clear_blocks(int32_t ordinal) {
  EngineMemory& memory = engine_->memory();
  Queue& queue = engine_->queue();
  const int64_t bytes = cache().shape().block_bytes();
  queue.wait_for_copies();
  std::memset(memory.library_staging.data, 0, static_cast<size_t>(bytes));
  for (int32_t b = 0; b < cache().blocks_per_image(); ++b)
    queue.copy(cache().image_block(ordinal, b).data, memory.library_staging.data, bytes);
  queue.note_copies();
}

/// Keeps what read_alone() has computed.
Status Session::keep_entry(const EntryFacts& facts, int32_t ordinal) {
  EngineMemory& memory = engine_->memory();
  const KvShape& kv = cache().shape();
  Queue& queue = engine_->queue();
  std::byte* const staging = memory.library_staging.data;
  std::byte* to = staging;
  visit_layers(cache(), ordinal, [&](std::byte* data, int64_t count) {
    queue.copy(to, data, count);
    to += count;
  });
  if (facts.stored_input_rows > 0) {
    queue.copy(to, memory.linked_rows.row(memory.chunk.linked_rows), input_row_bytes(facts));
    std::memcpy(to + input_row_bytes(facts), memory.image_chunk.picks.data, static_cast<size_t>(pick_bytes(facts)));
  }
  OCELLUS_TRY(queue.finish());
  std::span<const std::byte> blocks[kMostEntryLayers + 1];
  to = staging;
  for (int32_t block = 0; block <= kv.layer_count; ++block) {
    const int64_t bytes = entry_block_bytes(kv, facts, block);
    blocks[block] = {to, static_cast<size_t>(bytes)};
    to += bytes;
  }
  NewEntry entry;
  entry.facts = facts;
  entry.embedding = {memory.library_embedding.data, static_cast<size_t>(memory.library_embedding.cols)};
  entry.blocks = {blocks, static_cast<size_t>(kv.layer_count) + 1};
  std::string_view tags[kMostTags];
  const EntryLabels& labels = keep_.labels;
  for (int32_t i = 0; i < labels.tags.count; ++i) tags[i] = labels.tags.tags[i].view();
  entry.tags = {tags, static_cast<size_t>(labels.tags.count)};
  entry.caption = labels.caption.view();
  entry.expires = labels.expires;
  entry.pinned = labels.pinned;
  LibraryKey key;
  const Status status = library_->put(owner_.view(), keep_.part, entry, &key);
  keep_.note_stored(key, status);
  return status;
}

/// The mean of the rows that wait to be read alone. The staging is free: what it held is on its way no more.
void Session::note_embedding() {
  EngineMemory& memory = engine_->memory();
  const PromptChunk& alone = memory.image_chunk;
  Queue& queue = engine_->queue();
  const int64_t width = alone.hidden.cols;
  float* const mean = memory.library_embedding.data;
  auto* const rows = reinterpret_cast<float*>(memory.library_staging.data);
  queue.copy(rows, alone.hidden.data, alone.row_count * width * int64_t{sizeof(float)});
  if (!queue.finish().ok()) return;
  std::fill_n(mean, width, 0.0f);
  for (int64_t p = 0; p < alone.piece_count; ++p) {
    const Piece& piece = alone.pieces.data[p];
    for (int64_t i = 0; piece.kind == RowKind::kImage && i < piece.row_count; ++i)
      for (int64_t e = 0; e < width; ++e) mean[e] += rows[(piece.first_row + i) * width + e];
  }
  const auto count = static_cast<float>(alone.row_count - alone.text_count);
  for (int64_t e = 0; e < width; ++e) mean[e] /= count;
}

}  // namespace ocellus

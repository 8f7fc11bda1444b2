#include "runtime/branches/reuse/reuse.h"

#include <cstring>

#include "platform/clock.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/picture_source.h"

namespace ocellus {
namespace {

/// Hash of everything else that the bytes of an entry depend on. Staged images are the same under every policy.
uint64_t prefix_id(const VocabularyFacts& facts, const EngineShape& shape) {
  const bool staged = shape.reuse.staged;
  const float ranges[2] = {staged ? 1.0f : shape.policy.key_range, staged ? 1.0f : shape.policy.value_range};
  const KvShape& kv = shape.linked_kv();
  std::byte bytes[17 + OCELLUS_MOST_LAYER_BITS] = {};
  bytes[16 + OCELLUS_MOST_LAYER_BITS] = static_cast<std::byte>(pick_rule(shape.reuse));
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
  const uint64_t id = hash64(bytes, sizeof bytes);
  // States after views lie in blocks by the number of views that is planned.
  return kv.local.convolves ? prefix_of(id, static_cast<uint64_t>(kv.local_slots)) : id;
}

}  // namespace

void Reuse::open(Conversation& conversation, PictureRows& pictures, const BlendScratch& blend,
                 const SpreadMemory& spread) {
  conversation_ = &conversation;
  pictures_ = &pictures;
  blend_ = &blend;
  spread_ = &spread;
  shared_.open(conversation);
  reset();
}

void Reuse::reset() {
  set_store(nullptr, {});
  is_linking_ = true;
}

void Reuse::set_store(PictureStore* store, const OwnerName& owner) {
  store_ = store;
  owner_ = owner;
}

EntryFacts Reuse::facts_of(int32_t view_count, int64_t row_count) const {
  Engine& engine = conversation_->engine();
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
  facts.embedding_width = static_cast<int32_t>(engine.memory().linked.rows.cols);
  facts.stored_input_rows = static_cast<int32_t>(input_rows_of(shape, view_count, row_count));
  return facts;
}

/// Not for images that are read in their prompt: their identity includes all that stands before them, which is not
/// known ahead.
bool Reuse::looks_ahead() const {
  return store_ != nullptr && is_linking_ && !conversation_->engine().shape().reuse.in_context() &&
         store_->looks_ahead();
}

Status Reuse::look_ahead(const Picture& picture, const ViewPlan& plan) {
  EntryFacts facts;
  OCELLUS_TRY(identify(picture, plan, &facts));
  store_->look_ahead(conversation_->engine(), wish_for(facts));
  return {};
}

void Reuse::forget_ahead() {
  if (store_ != nullptr) store_->forget_ahead();
}

Status Reuse::link_known(const Picture& picture, const ViewPlan& plan, PromptChunk& chunk, int32_t* ordinal) {
  Engine& engine = conversation_->engine();
  EntryFacts facts;
  if (store_ == nullptr || !store_->next_ahead(&facts)) OCELLUS_TRY(identify(picture, plan, &facts));
  bool found = false;
  OCELLUS_TRY(find(wish_for(facts), chunk, ordinal, &found));
  if (store_ != nullptr) conversation_->stats().store.note_search(found);
  if (!found) {
    const int64_t start = now_ns();
    OCELLUS_TRY(engine.shape().reuse.in_context() ? read_in_context(picture, plan, *ordinal, chunk)
                                                  : read_alone(picture, plan, *ordinal, chunk));
    OCELLUS_TRY(engine.queue().finish());
    keep_image(facts, *ordinal, elapsed_ms(start, now_ns()), chunk);
  }
  uint64_t& prefix = conversation_->state().prefix_hash;
  for (const uint64_t part : {facts.content.high, facts.content.low, static_cast<uint64_t>(facts.tile_cols)})
    prefix = prefix_of(prefix, part);
  return engine.queue().status();
}

/// Finds an image on the device or in the store, as image number *ordinal; reserves one that is not found.
Status Reuse::find(const PictureWish& wish, const PromptChunk& chunk, int32_t* ordinal, bool* found) {
  OCELLUS_TRY(shared_.link(wish, chunk, ordinal, found));
  if (*found) return {};
  OCELLUS_TRY(linked_cache(*conversation_).reserve_image(ordinal));
  return store_ == nullptr ? Status() : store_->recall(*conversation_, wish, *ordinal, chunk, found);
}

Status Reuse::link_named(const EntryFacts& facts, const ViewPlan& plan, PromptChunk& chunk) {
  PictureWish wish = wish_for(facts);
  wish.by_name = true;
  int32_t ordinal = 0;
  bool found = false;
  OCELLUS_TRY(find(wish, chunk, &ordinal, &found));
  OCELLUS_TRY(add_links(plan, ordinal, chunk));
  ++conversation_->stats().store.hits;
  return {};
}

Status Reuse::identify(const Picture& picture, const ViewPlan& plan, EntryFacts* facts) {
  Engine& engine = conversation_->engine();
  const TraceRange range(engine.trace(), "identify image");
  const EngineShape& shape = engine.shape();
  const ArenaScope scope(engine.arena());
  ImageScratch scratch;
  OCELLUS_TRY(engine.take_scratch(&scratch));
  const int64_t start = now_ns();
  ImageHash hash;
  PictureSource source(shape.pictures, plan, scratch, engine.memory().pictures.decoder, engine.queue());
  OCELLUS_TRY(source.identify(picture, &hash));
  if (picture.next != nullptr) {
    ImageHash second;
    OCELLUS_TRY(source.identify(*picture.next, &second));
    hash = pair_hash(hash, second);
  }
  conversation_->stats().preprocess_ms += elapsed_ms(start, now_ns());
  *facts = facts_of(plan.view_count(), plan.row_count());
  facts->content = {hash.high, hash.low};
  if (shape.reuse.in_context()) facts->prefix_id = prefix_of(facts->prefix_id, conversation_->state().prefix_hash);
  facts->tile_cols = plan.is_tall() ? 1 : plan.tile_cols;
  facts->shared_rows = static_cast<int32_t>(plan.row_count() - plan.position_count());
  return {};
}

/// Keeps it in the store and in its shared place. An image that the store does not have is not found there either.
void Reuse::keep_image(const EntryFacts& facts, int32_t ordinal, double computed_ms, const PromptChunk& chunk) {
  const PictureWish wish = wish_for(facts);
  const int64_t awaited = store_ == nullptr ? 0 : store_->keep(*conversation_, wish, ordinal, computed_ms, chunk);
  if (store_ != nullptr && awaited == 0) return;
  shared_.keep(ordinal, wish, {.awaited = awaited, .computed_ms = computed_ms}, true, chunk);
}

}  // namespace ocellus

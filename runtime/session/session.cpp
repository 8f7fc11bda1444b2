#include "runtime/session/session.h"

#include <algorithm>

#include "runtime/engine/engine.h"

namespace ocellus {

SessionCache& Session::cache() { return engine_->memory().caches[index_]; }
const SessionCache& Session::cache() const { return engine_->memory().caches[index_]; }

void PromptStats::report(ocellus_generate_stats* out) const {
  out->image_tokens = image_rows;
  out->prompt_tokens = rows;
  out->library_hits = library_hits;
  out->library_memory_hits = library_memory_hits;
  out->library_misses = library_misses;
  out->library_bytes_read = library_bytes;
  out->library_saved_ms = library_saved_ms;
  out->preprocess_ms = preprocess_ms;
  out->encode_ms = encode_ms;
  out->prefill_ms = prefill_ms;
  out->first_token_ms += preprocess_ms + encode_ms + prefill_ms;
}

void Session::open(Engine& engine, int32_t slot) {
  engine_ = &engine;
  index_ = slot;
  open_ = true;
  library_ = nullptr;
  keep_ = {};
  rolling_images_ = sink_pages_ = 0;
  stop_.set_deadline(0);
  reset();
}

void Session::close() {
  reset();
  open_ = false;
  engine_->give_slot_back(index_);
}

void Session::reset() {
  drop_chunk();
  cache().reset();
  deferred_ = Status();
  next_position_ = 0;
  has_answerable_ = conversation_started_ = has_system_ = text_started_ = has_ncar_ = false;
  unread_token_ = kNoToken;
  recent_count_ = 0;
  prefix_hash_ = kEmptyPrefix;
  drawn_count_ = 0;
  prompt_ = PromptStats();
  utf8_.finish();
  set_checkpoint();
  forget_late_cancel();
}

Status Session::acknowledge_cancel(Status status) {
  if (status.code() == Code::kCancelled) stop_.acknowledge();
  return status;
}

void Session::forget_late_cancel() {
  if (!has_prompt_) stop_.acknowledge();
}

void Session::begin_prompt() {
  forget_late_cancel();
  has_prompt_ = true;
}

void Session::set_checkpoint() {
  has_prompt_ = false;
  checkpoint_ = {.cache = cache().mark(),
                 .next_position = next_position_,
                 .has_answerable = has_answerable_,
                 .conversation_started = conversation_started_,
                 .has_system = has_system_,
                 .text_started = text_started_,
                 .unread_token = unread_token_,
                 .recent_count = recent_count_,
                 .prefix_hash = prefix_hash_};
}

/// Back to the checkpoint: rows that wait and rows that were read early, to make room, are forgotten alike.
void Session::forget_prompt() {
  has_prompt_ = false;
  drop_chunk();
  cache().rewind(checkpoint_.cache);
  forget_recent_tokens(checkpoint_.recent_count);
  // The last hidden row is still the checkpoint's if nothing was read since.
  has_answerable_ = checkpoint_.has_answerable && next_position_ == checkpoint_.next_position;
  next_position_ = checkpoint_.next_position;
  conversation_started_ = checkpoint_.conversation_started;
  has_system_ = checkpoint_.has_system;
  text_started_ = checkpoint_.text_started;
  unread_token_ = checkpoint_.unread_token;
  prefix_hash_ = checkpoint_.prefix_hash;
  has_ncar_ = false;
  prompt_.rows = prompt_.image_rows = 0;
}

/// Back to the first `count` tokens. The oldest remembered ones made place for the forgotten ones; nothing stands there
/// now.
void Session::forget_recent_tokens(int64_t count) {
  const int64_t overwritten = std::min<int64_t>(recent_count_ - count, kRecentTokens);
  int32_t* recent = engine_->memory().recent_tokens.row(index_);
  for (int64_t i = 0; i < overwritten; ++i) recent[(count + i) % kRecentTokens] = kNoToken;
  recent_count_ = count;
}

int64_t Session::waiting_positions() const { return holds_chunk() ? engine_->memory().chunk.positions() : 0; }

void Session::remember_token(TokenId token) {
  engine_->memory().recent_tokens.row(index_)[recent_count_++ % kRecentTokens] = token;
}

int32_t Session::chunk_images() const {
  const PromptChunk& chunk = engine_->memory().chunk;
  int32_t count = 0, last = cache().image_count() - 1;
  for (int64_t i = 0; i < chunk.piece_count; ++i) {
    const Piece& piece = chunk.pieces.data[i];
    if (piece.kind != RowKind::kImage || piece.image_ordinal <= last) continue;
    last = piece.image_ordinal;
    ++count;
  }
  return count;
}

bool Session::chunk_is_evicted() const {
  const PromptChunk& chunk = engine_->memory().chunk;
  return engine_->shape().competes({.rows = chunk.row_count, .visual_rows = chunk.row_count - chunk.text_count});
}

/// Takes pages and blocks for every waiting row, or for what will be left of them.
Status Session::reserve_chunk() {
  const PromptChunk& chunk = engine_->memory().chunk;
  if (chunk_is_evicted()) {
    const Survivors left =
        engine_->shape().policy.survivors({.rows = chunk.row_count, .visual_rows = chunk.row_count - chunk.text_count});
    return cache().reserve_evicted({.text = static_cast<int32_t>(left.text),
                                    .visual = static_cast<int32_t>(left.visual),
                                    .images = chunk_images(),
                                    .rows = static_cast<int32_t>(chunk.row_count),
                                    .text_rows = static_cast<int32_t>(chunk.text_count)});
  }
  int32_t ordinal = 0;
  // Where images are linked, or read in context, they were reserved when they came.
  for (int32_t i = engine_->shape().links ? 0 : chunk_images(); i > 0; --i)
    OCELLUS_TRY(cache().reserve_image(&ordinal));
  return cache().reserve_text(chunk.text_count);
}

/// The slots that an image of so many rows keeps in blocks of its own.
int32_t Session::kept_slots(int64_t image_rows) const {
  const CachePolicy& policy = engine_->shape().policy;
  return static_cast<int32_t>(policy.evicts_images() ? policy.survivors({image_rows, image_rows}).slots() : image_rows);
}

void Session::commit_chunk() {
  EngineMemory& memory = engine_->memory();
  const PromptChunk& chunk = memory.chunk;
  if (chunk_is_evicted()) {
    cache().commit_evicted();
    has_ncar_ = memory.ncar.data != nullptr;
  } else {
    cache().commit_text(chunk.text_count);
    for (int64_t i = 0; i < chunk.piece_count; ++i) {
      const Piece& piece = chunk.pieces.data[i];
      if (piece.kind == RowKind::kImage)
        cache().commit_image(piece.image_ordinal, kept_slots(piece.row_count), static_cast<int32_t>(piece.row_count));
    }
  }
  commit_links();
  next_position_ += chunk.positions();
  prompt_.rows += static_cast<int32_t>(chunk.positions());
  prompt_.image_rows += static_cast<int32_t>(chunk.positions() - chunk.text_count + chunk.linked_rows);
  has_answerable_ = chunk.ends_with_row();
  engine_->note_cache_use();
}

/// Takes the chunk's rows through the text model, and waits for it.
Status Session::prefill_chunk() {
  const EngineShape& shape = engine_->shape();
  EngineMemory& memory = engine_->memory();
  const PromptChunk& chunk = memory.chunk;
  const TextModel& text = engine_->text();
  Queue& queue = engine_->queue();
  if (chunk.row_count == 0) {
    queue.join_transfers();
    return queue.status();
  }
  const TraceRange range(engine_->trace(), "prefill chunk");
  if (shape.blends()) OCELLUS_TRY(blend_chunk());
  const ArenaScope scope(engine_->arena());
  PrefillScratch scratch;
  scratch.trace = engine_->trace();
  OCELLUS_TRY(reserve_chunk());
  OCELLUS_TRY(scratch.lay_out(text.config, shape.prefill_limits(), shape.device, engine_->arena()));
  queue.start_timer(Queue::kPrefillTimer);
  const PrefillPlan plan = plan_prefill(chunk, next_position_, cache(), text.config.head_dim, scratch, queue);
  chunk.embed_text(text.embedding, queue);
  queue.join_transfers();  // of images from the library
  fetch_linked_rows();
  OCELLUS_TRY(engine_->run_prefill(chunk.row_count, plan, scratch, &stop_));
  queue.copy(memory.last_hidden.row(index_), chunk.hidden.row(chunk.row_count - 1),
             chunk.hidden.cols * static_cast<int64_t>(sizeof(float)));
  if (chunk_is_evicted()) cache().fetch_counts(cache().eviction_count(), queue);
  if (chunk_is_evicted() && memory.ncar.data != nullptr)
    queue.copy(memory.ncar.data + index_, scratch.compress.ncar.data, sizeof(NcarState));
  queue.stop_timer(Queue::kPrefillTimer);
  OCELLUS_TRY(queue.finish());
  prompt_.prefill_ms += queue.timer_ms(Queue::kPrefillTimer);
  if (plan.compress.is_late) {
    const HostView<int32_t>& slots = scratch.compress.layer_slots;
    cache().shrink_evicted(*std::max_element(slots.data, slots.data + slots.cols));
  }
  return queue.status();
}

Status Session::read_chunk() {
  if (!holds_chunk()) return {};
  const TraceRange range(engine_->trace(), "prefill");
  chunk_was_read_ = true;
  Status status = stop_.check();
  if (status.ok()) status = encode_last_views();
  if (status.ok()) status = prefill_chunk();
  if (status.ok()) {
    take_encode_time();
    if (engine_->memory().chunk.positions() > 0) commit_chunk();
    drop_chunk();
  } else {
    engine_->queue().clear();
    encode_timed_ = false;
    forget_prompt();
  }
  return status;
}

bool Session::holds_chunk() const { return engine_->chunk_loan().is_with(*this); }

/// Makes the prompt chunk ours. Rows of another session that wait in it are read first.
void Session::take_chunk() { engine_->chunk_loan().lend(*this); }

void Session::drop_chunk() { engine_->chunk_loan().give_back(*this, engine_->queue()); }

/// What every addition begins with: reports an earlier failure or a wish to stop, makes the chunk ours, and puts the
/// token that was generated last, which nothing has read yet, in front of what is added.
Status Session::start_adding() {
  begin_prompt();
  if (!deferred_.ok()) {
    const Status status = deferred_;
    deferred_ = Status();
    return OCELLUS_FAIL(status.code(), "what was added before could not be read (%s) and is forgotten",
                        code_name(status.code()));
  }
  OCELLUS_TRY(stop_.check());
  take_chunk();
  if (unread_token_ == kNoToken) return {};
  const TokenId token = unread_token_;
  OCELLUS_TRY(make_room(1, 0));
  OCELLUS_TRY(check_room(1, 0));
  OCELLUS_TRY(append_text_rows(&token, 1));
  unread_token_ = kNoToken;
  return {};
}

const NcarState* Session::ncar() const { return has_ncar_ ? engine_->memory().ncar.data + index_ : nullptr; }

/// Text tokens that the session holds at most. Where rows compete, pages are also planned for what is left of images,
/// and text that went is still counted, so that the planned images fit whatever comes before them. So do the rows of
/// linked images that are to come.
int64_t Session::most_text() const {
  const EngineShape& shape = engine_->shape();
  if (shape.policy.lists_chunks()) return shape.text_tokens_per_session;
  return shape.pages_per_session * kPageSlots - (shape.images_per_session - next_image()) * shape.linked_rows;
}

/// As much of it as there will be: of linked images' rows some may yet turn out not to be read in place.
int64_t Session::waiting_text() const {
  if (!holds_chunk()) return 0;
  const PromptChunk& chunk = engine_->memory().chunk;
  const EngineShape& shape = engine_->shape();
  const int64_t unread = chunk.linked_rows - chunk.linked_image_count * shape.linked_rows;
  return chunk.text_count - (shape.blends() ? unread : 0);
}

int64_t Session::room_for_text() const { return most_text() - cache().text_rows() - waiting_text(); }

int64_t Session::room_for_positions() const {
  return engine_->text().config.context_length - live_span() - waiting_positions();
}

/// kFull if so many forced tokens cannot find room, whatever a rolling context releases. The last one is not read yet.
Status Session::check_room_to_score(int64_t count) const {
  const int64_t rows = count - 1 + (unread_token_ != kNoToken ? 1 : 0);
  if (rolling_images_ == 0) return check_room(rows, 0);
  if (count - 1 <= most_text() / 2 || rows <= std::min(room_for_text(), room_for_positions())) return {};
  return OCELLUS_FAIL(Code::kFull, "%lld tokens are more than a rolling context of %lld makes room for at once",
                      static_cast<long long>(count), static_cast<long long>(most_text()));
}

/// kFull if this many more rows exceed the planned text slots or the positions of the model.
Status Session::check_room(int64_t text_rows, int64_t image_rows) const {
  const int64_t left = room_for_text();
  if (text_rows > left)
    return OCELLUS_FAIL(
        Code::kFull, "%lld more text tokens do not fit: the session has room for %lld of %lld; plan more text tokens",
        static_cast<long long>(text_rows), static_cast<long long>(left), static_cast<long long>(most_text()));
  const int64_t position = next_position_ + waiting_positions() + text_rows + image_rows;
  if (text_rows + image_rows > room_for_positions())
    return OCELLUS_FAIL(
        Code::kFull,
        "the conversation would reach position %lld, but the model was made for %d: reset the session or "
        "use fewer images and less text",
        static_cast<long long>(position), engine_->text().config.context_length);
  return {};
}

}  // namespace ocellus

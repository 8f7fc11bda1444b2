#include "runtime/session/prompt.h"

#include <algorithm>

#include "kernels/rows/convert_rows.h"
#include "runtime/engine/engine.h"
#include "runtime/policy/row_rule.h"

namespace ocellus {
namespace {

ChunkFacts facts_of(const PromptChunk& chunk) {
  return {.rows = chunk.row_count, .visual_rows = chunk.row_count - chunk.text_count};
}

/// Number of images that have rows in the chunk and are not in the cache.
int32_t new_images(const PromptChunk& chunk, const SessionCache& cache) {
  int32_t count = 0, last = cache.image_count() - 1;
  for (int64_t i = 0; i < chunk.piece_count; ++i) {
    const Piece& piece = chunk.pieces.data[i];
    if (piece.kind != RowKind::kImage || piece.image_ordinal <= last) continue;
    last = piece.image_ordinal;
    ++count;
  }
  return count;
}

/// The engine's chunk as its rows are stored: joined with staged images, if it has any.
const PromptChunk& stored_chunk(Engine& engine) {
  EngineMemory& memory = engine.memory();
  const LinkJoin* const join = memory.branches.join();
  return join != nullptr ? join->stored(memory.chunk) : memory.chunk;
}

/// Takes pages and blocks for every row, or for the survivors.
Status reserve_rows(const PromptChunk& chunk, int64_t position, const EngineShape& shape, SessionCache& cache) {
  if (shape.competes(facts_of(chunk))) {
    const Survivors left = shape.policy.survivors(facts_of(chunk));
    return cache.reserve_kept({.text = static_cast<int32_t>(left.text),
                               .visual = static_cast<int32_t>(left.visual),
                               .images = new_images(chunk, cache),
                               .rows = static_cast<int32_t>(chunk.row_count),
                               .text_rows = static_cast<int32_t>(chunk.text_count),
                               .slots = static_cast<int32_t>(left.slots()),
                               .position = position});
  }
  int32_t ordinal = 0;
  // Images that are linked, or read in context, were reserved when they came.
  for (int32_t i = shape.links.images > 0 && !shape.links.staged ? 0 : new_images(chunk, cache); i > 0; --i)
    OCELLUS_TRY(cache.reserve_image(&ordinal));
  return cache.reserve_text(chunk.text_count);
}

/// Makes an image's slots live, in blocks of its own; an image of several views has several pieces.
void commit_images(const PromptChunk& chunk, const CachePolicy& policy, SessionCache& cache) {
  for (int64_t i = 0; i < chunk.piece_count; ++i) {
    const Piece& piece = chunk.pieces.data[i];
    if (piece.kind != RowKind::kImage) continue;
    const auto rows = static_cast<int32_t>(piece.row_count);
    cache.commit_image(piece.image_ordinal, policy.cuts_images() ? 0 : rows, rows,
                       chunk.weighs ? chunk.weights.data + piece.first_row : nullptr);
  }
  if (!policy.cuts_images() || chunk.text_count == chunk.row_count) return;
  // Images that are cut down one by one are read one by one.
  const int64_t rows = chunk.row_count - chunk.text_count;
  cache.commit_image(cache.image_count() - 1, static_cast<int32_t>(policy.survivors({rows, rows}).slots()), 0);
}

/// Makes the reserved slots live, and those of linked images, unless `chunk` is joined with them.
void commit_rows(const PromptChunk& chunk, const EngineShape& shape, SessionCache& cache) {
  if (shape.kv.local.window > 0) cache.ring().commit(shape.kv.local.stored_of(chunk.tokens()));
  if (shape.competes(facts_of(chunk))) {
    cache.commit_kept();
  } else {
    cache.commit_text(chunk.text_count);
    commit_images(chunk, shape.policy, cache);
  }
  for (int64_t i = 0; i < chunk.linked_image_count; ++i) {
    const LinkedImage& image = chunk.linked_images.data[i];
    cache.commit_linked(image.ordinal, image.slots, image.in_place, image.position_shift);
  }
}

/// Runs the chunk's rows through all layers; twice, if the first pass is needed to know what a layer keeps.
Status run_layers(Engine& engine, const PromptChunk& chunk, const PrefillScratch& scratch, const StopSignal* stop,
                  PrefillPlan* plan) {
  Queue& queue = engine.queue();
  if (plan->compress.looks) {
    const DeviceView<float> hidden = chunk.hidden.slice_rows(0, chunk.row_count);
    const DeviceView<float> inputs = scratch.compress.inputs.slice_rows(0, chunk.row_count);
    convert_rows({.from = hidden, .to = inputs}, queue);
    OCELLUS_TRY(engine.run_prefill(chunk.row_count, *plan, scratch, stop));
    plan->compress.looks = false;
    const RowRule& rule = *engine.shape().policy.rule;
    if (!rule.end_looks(engine.text().config, scratch.compress, &plan->compress, queue)) return queue.status();
    convert_rows({.from = inputs, .to = hidden}, queue);
    if (scratch.links.change != nullptr) scratch.links.change->plan_none(queue);  // linked images have changed
  }
  return engine.run_prefill(chunk.row_count, *plan, scratch, stop);
}

Status prefill(Conversation& conversation) {
  Engine& engine = conversation.engine();
  const EngineShape& shape = engine.shape();
  EngineMemory& memory = engine.memory();
  SessionCache& cache = conversation.cache();
  PromptChunk& chunk = memory.chunk;
  const TextModel& text = engine.text();
  Queue& queue = engine.queue();
  const TraceRange range(engine.trace(), "prefill chunk");
  PictureLinks* const links = conversation.links();
  if (links != nullptr) OCELLUS_TRY(links->choose_rows(chunk));
  if (LinkJoin* const join = memory.branches.join()) join->begin(chunk, cache.image_count());
  const ArenaScope scope(engine.arena());
  PrefillScratch scratch;
  scratch.extra.trace = engine.trace();
  const PromptChunk& stored = stored_chunk(engine);
  const int64_t first_position = conversation.state().next_position;
  OCELLUS_TRY(engine.take_scratch(&scratch));
  PrefillTimer timer(queue);
  int32_t known_layers = 0;
  RowChoice* const rows = memory.branches.rows.get();
  if (rows != nullptr)
    OCELLUS_TRY(rows->after_first_layers(engine, first_position, cache, scratch, &conversation.stop(), &known_layers));
  OCELLUS_TRY(reserve_rows(stored, first_position, shape, cache));
  PrefillPlan plan = plan_prefill(chunk, first_position, cache, text.config.head_dim, scratch, queue);
  plan.known_layers = known_layers;
  if (known_layers == 0) chunk.embed_text(text, queue);
  queue.join_transfers();  // recalled images
  if (links != nullptr) links->fetch_rows(chunk);
  OCELLUS_TRY(run_layers(engine, chunk, scratch, &conversation.stop(), &plan));
  if (chunk.row_count > 0)
    queue.copy(conversation.last_hidden(), chunk.hidden.row(chunk.row_count - 1),
               chunk.hidden.cols * static_cast<int64_t>(sizeof(float)));
  const bool competes = shape.competes(facts_of(stored)), has_ncar = competes && memory.ncar.data != nullptr;
  if (competes) cache.kept().fetch_counts(cache.kept().count(), queue);
  if (has_ncar) queue.copy(memory.ncar.data + conversation.slot(), scratch.compress.ncar.data, sizeof(NcarState));
  double spent_ms = 0;
  OCELLUS_TRY(timer.finish(&spent_ms));
  conversation.stats().prefill_ms += spent_ms;
  if (rows != nullptr) rows->note_time(spent_ms, chunk.row_count);
  if (has_ncar) conversation.note_ncar();
  if (plan.compress.is_late || plan.compress.shares) cache.kept().shrink();
  return {};
}

/// Runs the chunk's rows through the text model, waits for it, and makes them part of the conversation.
Status read_rows(Conversation& conversation) {
  Engine& engine = conversation.engine();
  Queue& queue = engine.queue();
  PromptChunk& chunk = engine.memory().chunk;
  if (chunk.row_count > 0 || (engine.shape().stores_links() && chunk.linked_image_count > 0))
    OCELLUS_TRY(prefill(conversation));
  else
    queue.join_transfers();
  OCELLUS_TRY(queue.status());
  if (chunk.tokens() == 0) return {};
  commit_rows(stored_chunk(engine), engine.shape(), conversation.cache());
  ConversationState& state = conversation.state();
  PromptStats& stats = conversation.stats();
  state.next_position += chunk.position_count;
  state.row_count += chunk.tokens();
  state.is_answerable = chunk.ends_with_row();
  state.prefix_hash = prefix_of(state.prefix_hash, kEndOfPiece);
  stats.rows += static_cast<int32_t>(chunk.tokens());
  stats.image_rows += static_cast<int32_t>(chunk.tokens() - chunk.text_count + chunk.linked_rows);
  engine.note_cache_use();
  return {};
}

}  // namespace

PromptChunk& Prompt::chunk() const { return conversation_.engine().memory().chunk; }

bool Prompt::holds_chunk() const { return conversation_.engine().chunk_loan().is_with(*this); }

/// Staged images are released with the chunk.
void Prompt::give_back() {
  if (!holds_chunk()) return;
  conversation_.engine().chunk_loan().give_back(*this, conversation_.engine().queue());
  if (LinkJoin* const join = conversation_.engine().memory().branches.join()) join->images().drop_uncommitted();
}

void Prompt::reset() {
  give_back();
  deferred_ = Status();
}

/// Counts the maximum of text rows: some rows of linked images may turn out not to be computed in place.
RowNeed Prompt::waiting() const {
  if (!holds_chunk()) return {};
  const PromptChunk& chunk = this->chunk();
  const EngineShape& shape = conversation_.engine().shape();
  const int64_t unread = chunk.linked_rows - chunk.linked_image_count * shape.links.rows_in_text();
  const int32_t linked = static_cast<int32_t>(chunk.linked_image_count);
  return {.text = chunk.text_count - (shape.session.holes > 0 || shape.links.staged ? unread : 0),
          .images = linked + new_images(chunk, conversation_.cache()),
          .positions = chunk.position_count};
}

Status Prompt::start() {
  conversation_.begin_prompt();
  if (!deferred_.ok()) {
    const Status status = deferred_;
    deferred_ = Status();
    return OCELLUS_FAIL(status.code(), "everything added before could not be read (%s) and was dropped",
                        code_name(status.code()));
  }
  OCELLUS_TRY(conversation_.stop().check());
  conversation_.engine().chunk_loan().lend(*this);
  TokenId& unread = conversation_.state().unread_token;
  if (unread == kNoToken) return {};
  const TokenId token = unread;
  OCELLUS_TRY(make_room(RowNeed::of_text(1)));
  OCELLUS_TRY(append(&token, 1));
  unread = kNoToken;
  return {};
}

Checkpoint Prompt::mark() const {
  return {.state = conversation_.state(),
          .cache = conversation_.cache().mark(),
          .chunk = chunk().mark(),
          .images = conversation_.cache().image_count() + waiting().images,
          .reads = reads_};
}

void Prompt::go_back(const Checkpoint& to) {
  if (to.reads != reads_) return forget();
  Engine& engine = conversation_.engine();
  engine.queue().join_transfers();
  chunk().rewind(to.chunk);
  engine.memory().pictures.waiting.forget_from(to.chunk.row_count);
  const bool staged = engine.shape().links.staged;
  linked_cache(conversation_)
      .release_reserved_images(staged ? static_cast<int32_t>(to.chunk.linked_image_count) : to.images);
  conversation_.restore(to.state);
}

/// Drops rows that wait and rows that were read early, to make room.
void Prompt::forget() {
  give_back();
  conversation_.go_back();
}

/// Makes room in a rolling context by releasing the oldest rows.
Status Prompt::roll(const RowNeed& need) {
  Roller* const roller = room_.roller();
  if (roller == nullptr || !roller->can_release(room_, need, waiting())) return {};
  const bool reads_early = !room_.has(need, waiting()) || roller->begins(room_, need, waiting());
  if (reads_early && !waiting().is_none()) OCELLUS_TRY(read_and_borrow());
  return roller->release(room_, need);
}

Status Prompt::make_room(const RowNeed& need) {
  OCELLUS_TRY(roll(need));
  return room_.check(need, waiting());
}

Status Prompt::read() {
  if (!holds_chunk()) return {};
  Engine& engine = conversation_.engine();
  const TraceRange range(engine.trace(), "prefill");
  ++reads_;
  Status status = conversation_.stop().check();
  if (status.ok()) status = pictures_.encode();
  if (RowChoice* const rows = engine.memory().branches.rows.get(); status.ok() && rows != nullptr)
    status = rows->after_encoding(engine, &conversation_.stats().prefill_ms);
  if (status.ok()) status = read_rows(conversation_);
  if (!status.ok()) {
    pictures_.forget_from(0);
    forget();
    return status;
  }
  pictures_.take_time();
  give_back();
  return {};
}

Status Prompt::read_and_borrow() {
  OCELLUS_TRY(read());
  conversation_.engine().chunk_loan().lend(*this);
  return {};
}

Status Prompt::read_to_answer() {
  OCELLUS_TRY(start());
  OCELLUS_TRY(text_.flush());
  if (waiting().is_none()) give_back();
  return read();
}

Status Prompt::read_nothing() {
  OCELLUS_TRY(conversation_.stop().check());
  conversation_.engine().chunk_loan().lend(*this);
  give_back();
  return make_room(RowNeed::of_text(1));
}

}  // namespace ocellus

// Images that are linked into prompts (MPIC, Zhao et al. 2025; InfoBlend): an image is read alone, after the start
// token and between the tokens around its views, so that its keys and values do not depend on the prompt. In the prompt
// stand those tokens and the image's first rows, read in place; its other slots are seen from where the prompt has
// them.
#include <algorithm>

#include "runtime/delimiter_tokens.h"
#include "runtime/engine.h"
#include "runtime/session.h"

namespace ocellus {

Status Session::link_picture(const Picture& picture, const ViewPlan& plan) {
  int32_t ordinal = 0;
  OCELLUS_TRY(cache().reserve_image(&ordinal));
  Status status = library_ == nullptr ? read_alone(picture, plan) : recall_or_read(picture, plan, ordinal);
  if (status.ok()) status = add_links(plan, ordinal);
  if (status.ok()) return {};
  engine_->queue().join_transfers();
  cache().release_reserved_image();
  engine_->memory().waiting_views.clear();
  return status;
}

/// Fills the blocks of the image that was reserved last, and keeps the embeddings of the rows that are read in place.
Status Session::read_alone(const Picture& picture, const ViewPlan& plan) {
  EngineMemory& memory = engine_->memory();
  PromptChunk& alone = memory.image_chunk;
  const VocabularyFacts& facts = engine_->tokenizer().facts();
  alone.clear();
  if (facts.add_bos && facts.bos != kNoToken) alone.add_text(&facts.bos, 1);
  OCELLUS_TRY(add_views(picture, plan, alone));
  OCELLUS_TRY(encode_last_views());
  if (library_ != nullptr) note_embedding();
  const int64_t row_bytes = alone.hidden.cols * int64_t{sizeof(float)};
  int64_t kept = 0;
  for (int64_t p = 0; p < alone.piece_count; ++p) {
    const Piece& piece = alone.pieces.data[p];
    const int64_t count = std::min(piece.row_count, engine_->shape().linked_rows - kept);
    if (piece.kind != RowKind::kImage || count == 0) continue;
    engine_->queue().copy(memory.linked_rows.row(memory.chunk.linked_rows + kept), alone.hidden.row(piece.first_row),
                          count * row_bytes);
    kept += count;
  }
  return alone.row_count - alone.text_count > kept ? prefill_alone() : engine_->queue().status();
}

Status Session::prefill_alone() {
  EngineMemory& memory = engine_->memory();
  const PromptChunk& alone = memory.image_chunk;
  const TextModel& text = engine_->text();
  Queue& queue = engine_->queue();
  const ArenaScope scope(engine_->arena());
  PrefillScratch scratch;
  OCELLUS_TRY(
      scratch.lay_out(text.config, engine_->shape().prefill_limits(), engine_->shape().device, engine_->arena()));
  queue.start_timer(Queue::kPrefillTimer);
  const PrefillPlan plan = plan_prefill_alone(alone, cache(), text.config.head_dim, scratch, queue);
  alone.embed_text(text.embedding, queue);
  OCELLUS_TRY(engine_->run_prefill(alone.row_count, plan, scratch, &stop_));
  queue.stop_timer(Queue::kPrefillTimer);
  OCELLUS_TRY(queue.finish());
  prompt_.prefill_ms += queue.timer_ms(Queue::kPrefillTimer);
  return queue.status();
}

/// The tokens around the views and the rows that are read in place go to the chunk, which has room for them.
Status Session::add_links(const ViewPlan& plan, int32_t ordinal) {
  PromptChunk& chunk = engine_->memory().chunk;
  const VocabularyFacts& facts = engine_->tokenizer().facts();
  const auto tokens_per_view = static_cast<int32_t>(engine_->vision().config.tokens_per_view());
  const int64_t first = next_position_ + chunk.positions();
  LinkedRun link{.ordinal = ordinal};
  link.position_shift = static_cast<int32_t>(first - (facts.add_bos && facts.bos != kNoToken ? 1 : 0));
  DelimiterTokens tokens;
  int32_t slot = 0;
  auto rows = static_cast<int32_t>(engine_->shape().linked_rows);
  for (int32_t i = 0, pieces = image_piece_count(plan); i < pieces; ++i) {
    const ImagePiece piece = image_piece(plan, i);
    if (!piece.is_view()) {
      OCELLUS_TRY(tokens.encode(engine_->tokenizer(), piece.text));
      chunk.add_text(tokens.ids(), tokens.count());
      continue;
    }
    const int32_t in_place = std::min(rows, tokens_per_view);
    chunk.add_linked_rows(in_place);
    link.first_slot = slot + in_place;
    link.slots = tokens_per_view - in_place;
    chunk.add_link(link);
    slot += tokens_per_view;
    rows -= in_place;
  }
  cache().note_image_position(ordinal, first);
  return {};
}

void Session::commit_links() {
  const PromptChunk& chunk = engine_->memory().chunk;
  if (chunk.link_count == 0) return;
  const auto tokens_per_view = static_cast<int32_t>(engine_->vision().config.tokens_per_view());
  const auto rows = static_cast<int32_t>(engine_->shape().linked_rows);
  for (int64_t begin = 0, end = 0; begin < chunk.link_count; begin = end) {
    const LinkedRun& link = chunk.links.data[begin];
    while (end < chunk.link_count && chunk.links.data[end].ordinal == link.ordinal) ++end;
    const int32_t slots = static_cast<int32_t>(end - begin) * tokens_per_view;
    cache().commit_linked(link.ordinal, slots, std::min(rows, slots), link.position_shift);
  }
}

/// Rows that are read in place become rows of the chunk.
void Session::fetch_linked_rows() {
  const EngineMemory& memory = engine_->memory();
  const PromptChunk& chunk = memory.chunk;
  const int64_t row_bytes = chunk.hidden.cols * int64_t{sizeof(float)};
  for (int64_t p = 0; p < chunk.piece_count; ++p) {
    const Piece& piece = chunk.pieces.data[p];
    if (piece.kind == RowKind::kLinked)
      engine_->queue().copy(chunk.hidden.row(piece.first_row), memory.linked_rows.row(piece.source_row),
                            piece.row_count * row_bytes);
  }
}

}  // namespace ocellus

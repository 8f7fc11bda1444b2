// Images linked into prompts (MPIC, Zhao et al. 2025; InfoBlend): an image is read alone, after the start token and
// between the tokens around its views, so that its keys and values do not depend on the prompt. The prompt contains
// those tokens and some of the image's rows, computed in place; its other slots are read from where they were computed.
// The rows in place are MPIC's choice (the first) or ours (rows far from each other).
#include <algorithm>
#include <numeric>

#include "kernels/cache/spread_rows.h"
#include "kernels/rows/convert_rows.h"
#include "runtime/branches/reuse/reuse.h"
#include "runtime/engine/engine.h"
#include "runtime/models/delimiter_tokens.h"

namespace ocellus {
namespace {

/// The first position of rows that see nothing but each other.
constexpr int64_t kAlone = -1;

/// Waiting rows that are read once more with every image after them that is read in its prompt. A prompt is cut where
/// there are as many, whether the image is found or not.
constexpr int64_t kMostRowsAgain = 64;

/// Adds the rows of a linked image to a chunk, in order: those in place become rows, the others links between them.
class LinkedRows {
 public:
  /// Takes the image that was added to the chunk last.
  LinkedRows(PromptChunk& chunk, const int32_t* picks)
      : chunk_(chunk),
        number_(static_cast<int32_t>(chunk.linked_image_count - 1)),
        in_place_(chunk.linked_images.data[number_].in_place),
        picks_(picks),
        slot_(in_place_) {}

  /// Adds the next rows of the image.
  void add(const ImagePiece& piece) {
    const PositionSpan span = chunk_.next_span(piece.rows, piece.positions, piece.cols);
    const int64_t begin = row_;
    for (const int64_t end = row_ + piece.rows; row_ < end;) {
      const int64_t next = pick_ < in_place_ ? std::min<int64_t>(picks_[pick_], end) : end;
      if (next > row_) {
        const auto slots = static_cast<int32_t>(next - row_);
        chunk_.add_link(number_, slot_, slots, span.from(row_ - begin));
        slot_ += slots;
        row_ = next;
      } else {
        chunk_.add_linked_rows(number_, 1, chunk_.linked_rows, span.from(row_ - begin));
        ++pick_;
        ++row_;
      }
    }
    chunk_.position_count += piece.positions;
  }

 private:
  PromptChunk& chunk_;
  int32_t number_, in_place_;
  const int32_t* picks_;
  int32_t slot_, pick_ = 0;
  int64_t row_ = 0;
};

}  // namespace

int64_t Reuse::rows_in_chunk(const ViewPlan& plan) const {
  const ReuseShape& shape = conversation_->engine().shape().reuse;
  const bool is_alone = is_linking_ && !shape.in_context();
  return is_alone ? std::min<int64_t>(plan.row_count(), shape.input_rows) : plan.row_count();
}

bool Reuse::reads_before(const PromptChunk& chunk) const {
  return conversation_->engine().shape().reuse.in_context() && chunk.row_count >= kMostRowsAgain;
}

Status Reuse::add(const Picture& picture, const ViewPlan& plan, int32_t ordinal, PromptChunk& chunk) {
  const ReuseShape& shape = conversation_->engine().shape().reuse;
  if (is_linking_ || shape.in_context()) return link(picture, plan, chunk);
  // Beside linked images every image has its blocks from the beginning: see reserve_rows.
  if (!shape.staged) OCELLUS_TRY(conversation_->cache().reserve_image(&ordinal));
  return pictures_->add(picture, plan, ordinal, chunk);
}

Status Reuse::link(const Picture& picture, const ViewPlan& plan, PromptChunk& chunk) {
  int32_t ordinal = 0;
  Status status;
  if (store_ != nullptr || shared_.planned() || conversation_->engine().shape().reuse.in_context()) {
    status = link_known(picture, plan, chunk, &ordinal);
  } else {
    OCELLUS_TRY(linked_cache(*conversation_).reserve_image(&ordinal));
    status = read_alone(picture, plan, ordinal, chunk);
  }
  if (status.ok()) status = add_links(plan, ordinal, chunk);
  if (!status.ok()) pictures_->forget_from(0);  // rows of the prompt are encoded, and those of the image are lost
  return status;
}

/// Fills the blocks of the image that was reserved last, and keeps the embeddings of the rows that are computed in
/// place.
Status Reuse::read_alone(const Picture& picture, const ViewPlan& plan, int32_t ordinal, const PromptChunk& chunk) {
  Engine& engine = conversation_->engine();
  PromptChunk& alone = engine.memory().linked.chunk;
  const TokenId start = engine.tokenizer().facts().start_token();
  alone.clear();
  if (start != kNoToken) alone.add_text(&start, 1);
  OCELLUS_TRY(pictures_->add(picture, plan, ordinal, alone));
  OCELLUS_TRY(pictures_->encode());
  if (store_ != nullptr) OCELLUS_TRY(store_->note_rows(alone, engine.queue()));
  OCELLUS_TRY(pick_rows(plan));
  keep_picked_rows(chunk);
  const bool reads_all = alone.row_count - alone.text_count == alone.pick_count && !engine.shape().reuse.blends();
  return reads_all ? engine.queue().status() : prefill_images(alone, kAlone);
}

/// Prefix caching, in blocks of one image. The image is read after the rows that wait, which then wait as before: the
/// prompt's rows are read in the same pieces, and so get the same bits, whether an image is found or not.
Status Reuse::read_in_context(const Picture& picture, const ViewPlan& plan, int32_t ordinal, PromptChunk& chunk) {
  const PromptChunk::Mark waiting = chunk.mark();
  conversation_->engine().memory().linked.chunk.pick_count = 0;
  OCELLUS_TRY(pictures_->add(picture, plan, ordinal, chunk));
  OCELLUS_TRY(pictures_->encode());
  if (store_ != nullptr) OCELLUS_TRY(store_->note_rows(chunk, conversation_->engine().queue()));
  OCELLUS_TRY(prefill_images(chunk, conversation_->state().next_position));
  chunk.rewind(waiting);
  return {};
}

/// Chooses the rows of the waiting image that are computed in place.
Status Reuse::pick_rows(const ViewPlan& plan) {
  EngineMemory& memory = conversation_->engine().memory();
  PromptChunk& alone = memory.linked.chunk;
  Queue& queue = conversation_->engine().queue();
  const EngineShape& shape = conversation_->engine().shape();
  const int64_t rows = plan.row_count(), views = plan.view_count();
  alone.pick_count = input_rows_of(shape, views, rows);
  int32_t* const picks = alone.picks.data;
  std::iota(picks, picks + alone.pick_count, 0);
  if (pick_rule(shape.reuse) == PickRule::kFirstOfTiles)
    for (int64_t i = 0, each = alone.pick_count / views; i < alone.pick_count; ++i)
      picks[i] = static_cast<int32_t>(i / each * plan.view_rows + i % each);
  if (pick_rule(shape.reuse) != PickRule::kSpread || alone.pick_count == rows) return queue.status();
  const SpreadMemory& spread = *spread_;
  queue.upload(alone.token_ids, alone.row_count);
  spread_rows({.rows = alone.hidden.slice_rows(0, alone.row_count),
               .ids = alone.token_ids.device.data,
               .least = spread.least.data,
               .mean = spread.mean.data,
               .picks = spread.picks.device.data,
               .count = static_cast<int32_t>(alone.pick_count)},
              queue);
  if (spread.picks.host.data != spread.picks.device.data)
    queue.copy(spread.picks.host.data, spread.picks.device.data, alone.pick_count * int64_t{sizeof(int32_t)});
  OCELLUS_TRY(queue.finish());
  std::copy_n(spread.picks.host.data, alone.pick_count, picks);
  std::sort(picks, picks + alone.pick_count);
  // Maps rows of the chunk to rows of the image: those of text before them do not count.
  int64_t pick = 0, image_row = 0;
  for (int64_t row = 0; pick < alone.pick_count; ++row) {
    if (picks[pick] == row) picks[pick++] = static_cast<int32_t>(image_row);
    if (alone.token_ids.host.data[row] == kSkippedRow) ++image_row;
  }
  return {};
}

/// Keeps the embeddings of the picked rows, which the prompt chunk computes in place.
void Reuse::keep_picked_rows(const PromptChunk& chunk) {
  EngineMemory& memory = conversation_->engine().memory();
  const PromptChunk& alone = memory.linked.chunk;
  int64_t pick = 0, before = 0;
  for (int64_t p = 0; p < alone.piece_count; ++p) {
    const Piece& piece = alone.pieces.data[p];
    if (piece.kind != RowKind::kImage) continue;
    const int64_t end = before + piece.row_count;
    while (pick < alone.pick_count && alone.picks.data[pick] < end) {
      const int64_t first = pick, row = alone.picks.data[first];
      while (pick < alone.pick_count && alone.picks.data[pick] == row + pick - first && row + pick - first < end)
        ++pick;
      convert_rows({.from = alone.inputs.slice_rows(piece.first_row + row - before, pick - first),
                    .to = memory.linked.rows.slice_rows(chunk.linked_rows + first, pick - first)},
                   conversation_->engine().queue());
    }
    before = end;
  }
}

/// Fills the blocks of the chunk's only image that is not linked.
Status Reuse::prefill_images(const PromptChunk& chunk, int64_t first_position) {
  Engine& engine = conversation_->engine();
  const TraceRange range(engine.trace(), "prefill image");
  const TextModel& text = engine.text();
  SessionCache& cache = linked_cache(*conversation_);
  Queue& queue = engine.queue();
  const ArenaScope scope(engine.arena());
  PrefillScratch scratch;
  scratch.extra.trace = engine.trace();
  OCELLUS_TRY(engine.take_scratch(&scratch));
  PrefillTimer timer(queue);
  const int32_t head_dim = text.config.head_dim;
  const PrefillPlan plan = first_position == kAlone
                               ? plan_prefill_alone(chunk, cache, head_dim, scratch, queue)
                               : plan_prefill_images(chunk, first_position, cache, head_dim, scratch, queue);
  chunk.embed_text(text, queue);
  if (first_position != kAlone) queue.join_transfers();  // recalled images
  OCELLUS_TRY(engine.run_prefill(chunk.row_count, plan, scratch, &conversation_->stop()));
  return timer.finish(&conversation_->stats().prefill_ms);
}

/// Adds the tokens around the views and the rows that are computed in place to the chunk.
Status Reuse::add_links(const ViewPlan& plan, int32_t ordinal, PromptChunk& chunk) {
  Engine& engine = conversation_->engine();
  const TraceRange range(engine.trace(), "link");
  const PromptChunk& alone = engine.memory().linked.chunk;
  const int64_t first = conversation_->state().next_position + chunk.position_count;
  const int64_t start_tokens = engine.tokenizer().facts().start_token() != kNoToken ? 1 : 0;
  LinkedImage& image = chunk.linked_images.data[chunk.linked_image_count++];
  image.ordinal = ordinal;
  image.slots = static_cast<int32_t>(plan.row_count());
  image.in_place = static_cast<int32_t>(alone.pick_count);
  image.position_shift = engine.shape().reuse.in_context() ? 0 : static_cast<int32_t>(first - start_tokens);
  DelimiterTokens tokens;
  LinkedRows rows(chunk, alone.picks.data);
  ImagePiece piece;
  for (ImagePieces pieces(plan); pieces.next(&piece);) {
    if (piece.is_view()) {
      rows.add(piece);
      continue;
    }
    OCELLUS_TRY(tokens.encode(engine.tokenizer(), piece.text));
    chunk.add_text(tokens.ids(), tokens.count());
  }
  linked_cache(*conversation_).note_image_position(ordinal, first);
  return {};
}

void Reuse::fetch_rows(const PromptChunk& chunk) {
  const EngineMemory& memory = conversation_->engine().memory();
  for (int64_t p = 0; p < chunk.piece_count; ++p) {
    const Piece& piece = chunk.pieces.data[p];
    if (piece.kind == RowKind::kLinked)
      convert_rows({.from = memory.linked.rows.slice_rows(piece.source_row, piece.row_count),
                    .to = chunk.inputs.slice_rows(piece.first_row, piece.row_count)},
                   conversation_->engine().queue());
  }
}

}  // namespace ocellus

#include "runtime/cache/prompt_chunk.h"

#include <algorithm>

#include "kernels/rows/gather_rows.h"

namespace ocellus {

template <>
struct TypeName<Piece> {
  static constexpr const char* value = "piece";
};

Status PromptChunk::lay_out(int64_t max_rows, const TextConfig& config, const LinkLimits& limits, RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kSession;
  OCELLUS_TRY(take_rows(sink, "prompt rows", kLife, Phase::kNone, max_rows, config.input_width(), &inputs));
  hidden = inputs.slice_cols(0, config.width);
  OCELLUS_TRY(token_ids.lay_out(sink, "prompt tokens", kLife, Phase::kNone, 1, max_rows));
  OCELLUS_TRY(take_rows(sink, "prompt pieces", kLife, Phase::kNone, 1, max_rows, &pieces));
  if (limits.images == 0) return {};
  OCELLUS_TRY(take_rows(sink, "linked images", kLife, Phase::kNone, 1, limits.images, &linked_images));
  return take_rows(sink, "links to images", kLife, Phase::kNone, 1, limits.runs, &links);
}

Status PromptChunk::lay_out_alone(int64_t max_rows, const PromptChunk& other, int64_t most_picks, RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kSession;
  inputs = other.inputs.slice_rows(0, max_rows);
  hidden = other.hidden.slice_rows(0, max_rows);
  OCELLUS_TRY(token_ids.lay_out(sink, "image tokens", kLife, Phase::kNone, 1, max_rows));
  OCELLUS_TRY(take_rows(sink, "image pieces", kLife, Phase::kNone, 1, max_rows, &pieces));
  if (most_picks == 0) return {};
  return take_rows(sink, "picked rows", kLife, Phase::kNone, 1, most_picks, &picks);
}

Status PromptChunk::lay_out_weights(int64_t max_rows, RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kSession;
  OCELLUS_TRY(take_rows(sink, "weights of rows", kLife, Phase::kNone, 1, max_rows, &weights));
  return take_rows(sink, "slots of rows", kLife, Phase::kNone, 1, max_rows, &row_slots);
}

Status PromptChunk::lay_out_joined(int64_t max_rows, RowSink& sink) {
  return take_rows(sink, "joined prompt pieces", Lifetime::kSession, Phase::kNone, 1, max_rows, &pieces);
}

void PromptChunk::add_piece(RowKind kind, int64_t count, const PositionSpan& span, int32_t image_ordinal,
                            int64_t source_row) {
  Piece* last = piece_count > 0 ? &pieces.data[piece_count - 1] : nullptr;
  if (last != nullptr && last->kind == kind && last->image_ordinal == image_ordinal &&
      last->span.from(last->row_count) == span) {
    last->row_count += count;
  } else {
    pieces.data[piece_count++] = {.kind = kind,
                                  .image_ordinal = image_ordinal,
                                  .first_row = static_cast<int32_t>(row_count),
                                  .source_row = static_cast<int32_t>(source_row),
                                  .row_count = count,
                                  .span = span};
  }
  row_count += count;
  if (kind != RowKind::kImage) text_count += count;
}

void PromptChunk::add_text(const int32_t* tokens, int64_t count) {
  std::copy(tokens, tokens + count, token_ids.host.data + row_count);
  add_piece(RowKind::kText, count, PositionSpan::of(position_count, count, count), 0, 0);
  position_count += count;
}

void PromptChunk::add_image_rows(int32_t image_ordinal, int64_t count, int64_t positions, const PositionSpan& span) {
  std::fill_n(token_ids.host.data + row_count, count, kSkippedRow);
  add_piece(RowKind::kImage, count, span, image_ordinal, 0);
  position_count += positions;
}

void PromptChunk::add_linked_rows(int32_t image, int64_t count, int64_t source_row, const PositionSpan& span) {
  if (count == 0) return;
  std::fill_n(token_ids.host.data + row_count, count, kSkippedRow);
  add_piece(RowKind::kLinked, count, span, image, source_row);
  linked_rows += count;
}

void PromptChunk::add_link(int32_t image, int32_t first_slot, int32_t slots, const PositionSpan& span) {
  LinkedRun* last = link_count > 0 ? &links.data[link_count - 1] : nullptr;
  if (last != nullptr && last->image == image && last->first_slot + last->slots == first_slot &&
      last->visible_from == row_count && last->span.from(last->slots) == span)
    last->slots += slots;
  else
    links.data[link_count++] = {image, first_slot, slots, static_cast<int32_t>(row_count), span};
  linked_slots += slots;
}

/// Builds the new pieces at the end of their memory, from the last one on: there is room for one a row, so that they
/// never reach the old ones that are still to be read.
void PromptChunk::keep_rows(const int32_t* kept, int64_t count) {
  int64_t next = pieces.cols, end = count;
  text_count = 0;
  for (int64_t p = piece_count; p-- > 0;) {
    const Piece piece = pieces.data[p];
    while (end > 0 && kept[end - 1] >= piece.first_row) {
      int64_t begin = end - 1;
      while (begin > 0 && kept[begin - 1] == kept[begin] - 1 && kept[begin - 1] >= piece.first_row) --begin;
      Piece& part = pieces.data[--next];
      part = piece;
      part.first_row = static_cast<int32_t>(begin);
      part.row_count = end - begin;
      part.span = piece.span.from(kept[begin] - piece.first_row);
      if (piece.kind != RowKind::kImage) text_count += part.row_count;
      end = begin;
    }
  }
  piece_count = pieces.cols - next;
  std::copy_n(pieces.data + next, piece_count, pieces.data);
  for (int64_t i = 0; i < count; ++i) token_ids.host.data[i] = token_ids.host.data[kept[i]];
  for (int64_t i = 0; weighs && i < count; ++i) weights.data[i] = weights.data[kept[i]];
  row_count = count;
}

int64_t PromptChunk::most_rows_of_image() const {
  int64_t most = 0, rows = 0;
  int32_t image = -1;
  for (int64_t p = 0; p < piece_count; ++p) {
    const Piece& piece = pieces.data[p];
    if (piece.kind != RowKind::kImage) continue;
    if (piece.image_ordinal != image) rows = 0;
    image = piece.image_ordinal;
    most = std::max(most, rows += piece.row_count);
  }
  return most;
}

/// Builds the new pieces from the last one on, as keep_rows().
void PromptChunk::deal_rows(int64_t rows) {
  if (most_rows_of_image() <= rows) return;
  const auto is_image = [](const Piece& piece) { return piece.kind == RowKind::kImage; };
  const int32_t first = std::find_if(pieces.data, pieces.data + piece_count, is_image)->image_ordinal;
  int64_t left = row_count - text_count, next = pieces.cols;
  for (int64_t p = piece_count; p-- > 0;) {
    Piece piece = pieces.data[p];
    while (is_image(piece) && piece.row_count > 0) {
      const int64_t image = (left - 1) / rows, count = std::min(piece.row_count, left - image * rows);
      Piece& part = pieces.data[--next];
      part = piece;
      part.image_ordinal = first + static_cast<int32_t>(image);
      part.first_row += static_cast<int32_t>(piece.row_count - count);
      part.span = piece.span.from(piece.row_count - count);
      part.row_count = count;
      piece.row_count -= count;
      left -= count;
    }
    if (!is_image(piece)) pieces.data[--next] = piece;
  }
  piece_count = pieces.cols - next;
  std::copy_n(pieces.data + next, piece_count, pieces.data);
}

void PromptChunk::order_slots() {
  for (int64_t p = 0; p < piece_count;) {
    const int64_t first = p;
    const auto is_of_image = [&](const Piece& piece) {
      return piece.kind != RowKind::kImage || piece.image_ordinal == pieces.data[first].image_ordinal;
    };
    if (pieces.data[p++].kind != RowKind::kImage) continue;
    while (p < piece_count && is_of_image(pieces.data[p])) ++p;
    int32_t slot = 0;
    for (int32_t weight = kMostRowWeight; weight > 0; --weight)
      for (int64_t i = first; i < p; ++i) {
        const Piece& piece = pieces.data[i];
        for (int64_t row = piece.first_row; row < piece.first_row + piece.row_count; ++row)
          if (piece.kind == RowKind::kImage && weights.data[row] == weight) row_slots.data[row] = slot++;
      }
  }
}

void PromptChunk::clear_rows() {
  const int64_t images = linked_image_count;
  clear();
  linked_image_count = images;
}

void PromptChunk::join(const PromptChunk& chunk, int32_t first_image) {
  clear();
  chunk.visit_parts(
      [&](const Piece& piece, int64_t row, int64_t count) {
        const bool is_text = piece.kind == RowKind::kText;
        add_piece(is_text ? RowKind::kText : RowKind::kImage, count, piece.span.from(row),
                  is_text ? 0 : first_image + piece.image_ordinal, 0);
      },
      [&](const LinkedRun& link) { add_piece(RowKind::kImage, link.slots, link.span, first_image + link.image, 0); });
  position_count = chunk.position_count;
}

int32_t PromptChunk::first_row_beside(const LinkedRun& link) const {
  int32_t first = link.visible_from;
  for (int64_t p = piece_count; p-- > 0;) {
    const Piece& piece = pieces.data[p];
    if (piece.first_row >= first) continue;
    if (piece.kind != RowKind::kLinked || piece.image_ordinal != link.image) break;
    first = piece.first_row;
  }
  return first;
}

bool PromptChunk::is_text(int64_t row) const { return token_ids.host.data[row] != kSkippedRow; }

void PromptChunk::embed_text(const TextModel& model, Queue& q) const {
  q.upload(token_ids, row_count);
  for (int64_t first = 0; first < inputs.cols; first += hidden.cols)
    gather_rows({.ids = token_ids.device.data,
                 .count = row_count,
                 .table = model.embedding,
                 .scale = first == 0 ? model.config.embedding_scale() : 0.0f,
                 .output = inputs.slice_cols(first, hidden.cols).slice_rows(0, row_count)},
                q);
}

void PromptChunk::rewind(const Mark& mark) {
  row_count = mark.row_count;
  piece_count = mark.piece_count;
  text_count = mark.text_count;
  linked_image_count = mark.linked_image_count;
  link_count = mark.link_count;
  linked_slots = mark.linked_slots;
  linked_rows = mark.linked_rows;
  position_count = mark.position_count;
  weighs = false;
  if (piece_count > 0) pieces.data[piece_count - 1].row_count = mark.last_piece_rows;
}

}  // namespace ocellus

#include "runtime/session/reduce_pictures.h"

#include <algorithm>

#include "kernels/rows/compact_rows.h"
#include "kernels/rows/gather_rows.h"
#include "runtime/engine/engine.h"

namespace ocellus {
namespace {

/// The rows of a chunk from a picture's first to its last one.
struct PictureRange {
  int64_t first = 0, end = 0;
  int64_t rows = 0;  // without text between them
  int32_t ordinal = 0;
};

/// Calls visit(range) for every picture of the chunk.
template <class Visit>
void for_each_picture(const PromptChunk& chunk, Visit visit) {
  PictureRange range;
  for (int64_t p = 0; p < chunk.piece_count; ++p) {
    const Piece& piece = chunk.pieces.data[p];
    if (piece.kind != RowKind::kImage) continue;
    if (range.rows > 0 && piece.image_ordinal != range.ordinal) {
      visit(range);
      range.rows = 0;
    }
    if (range.rows == 0) range = {.first = piece.first_row, .ordinal = piece.image_ordinal};
    range.end = piece.first_row + piece.row_count;
    range.rows += piece.row_count;
  }
  if (range.rows > 0) visit(range);
}

constexpr int32_t kDroppedRow = kSkippedRow - 1;

/// Marks the rows of pictures that were not picked; picks are numbers of rows in their picture's range.
void mark_dropped(const PromptChunk& chunk, const Reduction& reduction, const int32_t* picks) {
  int32_t* const ids = chunk.token_ids.host.data;
  for_each_picture(chunk, [&](const PictureRange& picture) {
    std::replace(ids + picture.first, ids + picture.end, kSkippedRow, kDroppedRow);
    const int32_t* const end = picks + reduction.kept_of(picture.rows);
    for (; picks < end; ++picks) ids[picture.first + *picks] = kSkippedRow;
  });
}

}  // namespace

Status reduce_pictures(Engine& engine) {
  const Reduction& reduction = engine.shape().pictures.reduction;
  PromptChunk& chunk = engine.memory().chunk;
  SpreadMemory& memory = engine.memory().spread;
  Queue& queue = engine.queue();
  if (!reduction.planned() || chunk.text_count == chunk.row_count) return {};
  const TraceRange range(engine.trace(), "reduce pictures");
  int32_t* const picks = memory.picks.host.data;
  int64_t count = 0;
  queue.upload(chunk.token_ids, chunk.row_count);
  for_each_picture(chunk, [&](const PictureRange& picture) {
    const int64_t keep = reduction.kept_of(picture.rows), rows = picture.end - picture.first;
    const DeviceView<float> notes =
        reduction.needs_attention() ? engine.memory().notes.slice_rows(picture.first, rows) : DeviceView<float>();
    reduction.rule->choose({.rows = chunk.hidden.slice_rows(picture.first, rows),
                            .ids = chunk.token_ids.device.data + picture.first,
                            .host_ids = {chunk.token_ids.host.data + picture.first, 1, rows},
                            .candidates = picture.rows,
                            .keep = keep,
                            .seed = static_cast<uint64_t>(picture.ordinal),
                            .least = memory.least.data,
                            .mean = memory.mean.data,
                            .picks = memory.picks.device.data + count,
                            .host_picks = picks + count,
                            .inputs = chunk.inputs.slice_rows(picture.first, rows),
                            .attention = notes.slice_cols(0, 1),
                            .keys = notes.slice_cols(1, notes.cols - 1),
                            .values = memory.values,
                            .marks = memory.marks},
                           reduction.options, queue);
    count += keep;
  });
  queue.copy(picks, memory.picks.device.data, count * static_cast<int64_t>(sizeof *picks));
  OCELLUS_TRY(queue.finish());

  mark_dropped(chunk, reduction, picks);
  int64_t kept = 0;
  for (int64_t row = 0; row < chunk.row_count; ++row)
    if (chunk.token_ids.host.data[row] != kDroppedRow) picks[kept++] = static_cast<int32_t>(row);
  queue.upload(memory.picks, kept);
  compact_rows({.rows = chunk.inputs, .kept = memory.picks.device.data, .count = kept}, queue);
  chunk.keep_rows(picks, kept);
  return queue.status();
}

}  // namespace ocellus

#include <algorithm>
#include <cmath>

#include "kernels/rows/compact_rows.h"
#include "kernels/rows/gather_rows.h"
#include "runtime/branches/reduce/picture_reduction.h"

namespace ocellus {
namespace {

/// Pictures that choose together: the rows of a chunk from the first one's first to the last one's last.
struct PictureGroup {
  int64_t first = 0, end = 0;
  int64_t rows = 0;  // number of each picture, without text between them
  int32_t ordinal = 0, count = 0;

  int64_t all_rows() const { return rows * count; }
  /// True if the next picture chooses with these.
  bool takes(const PictureGroup& next) const { return next.rows == rows && next.ordinal == ordinal + count; }
};

/// Calls visit(group) for every group of the chunk's pictures.
template <class Visit>
void for_each_group(const PromptChunk& chunk, bool shares, Visit visit) {
  PictureGroup group;
  for (int64_t p = 0; p < chunk.piece_count;) {
    if (chunk.pieces.data[p].kind != RowKind::kImage) {
      ++p;
      continue;
    }
    PictureGroup picture{
        .first = chunk.pieces.data[p].first_row, .ordinal = chunk.pieces.data[p].image_ordinal, .count = 1};
    for (; p < chunk.piece_count; ++p) {
      const Piece& piece = chunk.pieces.data[p];
      if (piece.kind != RowKind::kImage) continue;
      if (piece.image_ordinal != picture.ordinal) break;
      picture.end = piece.first_row + piece.row_count;
      picture.rows += piece.row_count;
    }
    if (shares && group.count > 0 && group.takes(picture)) {
      group.end = picture.end;
      ++group.count;
      continue;
    }
    if (group.count > 0) visit(group);
    group = picture;
  }
  if (group.count > 0) visit(group);
}

constexpr int32_t kDroppedRow = kSkippedRow - 1;
constexpr double kLeastShare = 1.0 / 16;

/// The reduction of a chunk's pictures, from the choice to the chunk of what is left.
class ChunkReduction {
 public:
  ChunkReduction(Engine& engine, const Reduction& reduction, const ReductionMemory& memory,
                 const ChoiceScratch& scratch)
      : engine_(engine),
        reduction_(reduction),
        chunk_(engine.memory().chunk),
        memory_(memory),
        scratch_(scratch),
        queue_(engine.queue()) {}

  /// `row_ms`: a prompt's row takes this; 0: not known.
  Status run(double row_ms) {
    find_share(row_ms);
    if (reduction_.rule->needs.text) chunk_.embed_text(engine_.text(), queue_);
    OCELLUS_TRY(choose());
    OCELLUS_TRY(queue_.finish());
    mark();
    keep();
    return queue_.status();
  }

 private:
  bool shares() const { return reduction_.rule->needs.shares(); }
  /// Rows of a group that are kept.
  int64_t kept_of(const PictureGroup& group) const { return reduction_.kept_of(group.rows, share_) * group.count; }

  /// The share of pictures' rows that can be read in the time that the reduction aims at.
  void find_share(double row_ms) {
    if (reduction_.target_ms == 0 || row_ms == 0) return;
    const auto text = static_cast<double>(chunk_.text_count), all = static_cast<double>(chunk_.row_count);
    share_ = std::max(kLeastShare, (static_cast<double>(reduction_.target_ms) / row_ms - text) / (all - text));
  }

  Status choose() {
    Status status;
    int64_t done = 0;
    for_each_group(chunk_, shares(), [&](const PictureGroup& group) {
      if (!status.ok()) return;
      const int64_t keep = kept_of(group);
      queue_.wait_for_copies();  // the group before has read its lists
      list_candidates(group);
      RowsToChoose rows{.rows = chunk_.hidden.slice_rows(0, chunk_.row_count),
                        .scratch = scratch_,
                        .candidates = group.all_rows(),
                        .pictures = group.count,
                        .texts = reduction_.rule->needs.text ? list_texts() : 0,
                        .keep = keep,
                        .seed = static_cast<uint64_t>(group.ordinal),
                        .picks = part_of(memory_.picks, done, keep),
                        .stands_for = {}};
      if (reduction_.rule->needs.merges) rows.inputs = chunk_.inputs.slice_rows(0, chunk_.row_count);
      if (reduction_.rule->needs.attention) {
        const DeviceView<float> notes = engine_.memory().pictures.notes.slice_rows(0, chunk_.row_count);
        rows.attention = notes.slice_cols(0, 1);
        rows.keys = notes.slice_cols(1, notes.cols - 1);
      }
      if (memory_.stands_for.host.cols > 0) rows.stands_for = part_of(memory_.stands_for, done, keep);
      status = reduction_.rule->choose(rows, reduction_.options, queue_);
      queue_.note_copies();
      done += keep;
    });
    return status;
  }
  static StagedRows<int32_t> part_of(const StagedRows<int32_t>& all, int64_t first, int64_t count) {
    return {{all.host.data + first, 1, count}, {all.device.data + first, 1, count}};
  }

  /// Lists a group's rows, and places them: a piece of a picture is a grid, or several views that are one each.
  void list_candidates(const PictureGroup& group) {
    const VisionConfig& vision = engine_.vision().config;
    int64_t count = 0;
    int32_t view = 0;
    for (int64_t p = 0; p < chunk_.piece_count; ++p) {
      const Piece& piece = chunk_.pieces.data[p];
      if (piece.kind != RowKind::kImage || piece.first_row < group.first || piece.first_row >= group.end) continue;
      const int64_t of_view = vision.any_size || piece.row_count % vision.tokens_per_view() != 0
                                  ? piece.row_count
                                  : vision.tokens_per_view();
      const int64_t cols =
          piece.span.cols > 0 ? piece.span.cols : static_cast<int64_t>(std::sqrt(static_cast<double>(of_view)) + 0.5);
      const int64_t lines = (of_view + cols - 1) / cols;
      for (int64_t i = 0; i < piece.row_count; ++i, ++count) {
        if (i > 0 && i % of_view == 0) ++view;
        scratch_.list.host.data[count] = static_cast<int32_t>(piece.first_row + i);
        if (scratch_.places.host.cols == 0) continue;
        const int64_t line = i % of_view / cols, column = i % of_view % cols;
        scratch_.places.host.data[count] = {static_cast<float>(line) / static_cast<float>(lines),
                                            static_cast<float>(column) / static_cast<float>(cols), view};
      }
      ++view;
    }
  }

  /// Lists the text after the last picture, the question as a rule, or all text if there is none. Returns its rows.
  int64_t list_texts() {
    const int32_t* const ids = chunk_.token_ids.host.data;
    int64_t first = chunk_.row_count;
    while (first > 0 && ids[first - 1] != kSkippedRow) --first;
    if (first == chunk_.row_count) first = 0;
    int64_t count = 0;
    for (int64_t row = first; row < chunk_.row_count; ++row)
      if (ids[row] != kSkippedRow) scratch_.others.host.data[count++] = static_cast<int32_t>(row);
    return count;
  }

  /// Marks the rows of pictures that were not picked, and weighs the others.
  void mark() {
    int32_t* const ids = chunk_.token_ids.host.data;
    const int32_t *picks = memory_.picks.host.data, *stands_for = memory_.stands_for.host.data;
    chunk_.weighs = engine_.shape().pictures.weighs_rows;
    if (chunk_.weighs) std::fill_n(chunk_.weights.data, chunk_.row_count, 1);
    for_each_group(chunk_, shares(), [&](const PictureGroup& group) {
      const int64_t keep = kept_of(group);
      list_candidates(group);
      std::replace(ids + group.first, ids + group.end, kSkippedRow, kDroppedRow);
      for (int64_t i = 0; i < keep; ++i) {
        const int32_t row = scratch_.list.host.data[picks[i]];
        ids[row] = kSkippedRow;
        if (chunk_.weighs) chunk_.weights.data[row] = std::min(stands_for[i], kMostRowWeight);
      }
      picks += keep;
      if (chunk_.weighs) stands_for += keep;
    });
  }

  void keep() {
    int32_t* const kept = memory_.picks.host.data;
    int64_t count = 0;
    for (int64_t row = 0; row < chunk_.row_count; ++row)
      if (chunk_.token_ids.host.data[row] != kDroppedRow) kept[count++] = static_cast<int32_t>(row);
    queue_.upload(memory_.picks, count);
    compact_rows({.rows = chunk_.inputs, .kept = memory_.picks.device.data, .count = count}, queue_);
    chunk_.keep_rows(kept, count);
    chunk_.deal_rows(engine_.shape().pictures.rows);
    if (chunk_.weighs) chunk_.order_slots();
  }

  Engine& engine_;
  const Reduction& reduction_;
  PromptChunk& chunk_;
  const ReductionMemory& memory_;
  const ChoiceScratch& scratch_;
  Queue& queue_;
  double share_ = 1;  // maximum that pictures keep, beside the share of the reduction
};

}  // namespace

Status PictureReduction::plan_scratch(RowSink& sink) const {
  ChoiceScratch scratch;
  return take(sink, &scratch);
}

Status PictureReduction::after_encoding(Engine& engine, double* spent_ms) {
  const PromptChunk& chunk = engine.memory().chunk;
  if (reduction_.full_layers() > 0 || chunk.text_count == chunk.row_count) return {};
  const TraceRange range(engine.trace(), "reduce pictures");
  const ArenaScope scope(engine.arena());
  ChoiceScratch scratch;
  OCELLUS_TRY(take(engine.arena(), &scratch));
  OCELLUS_TRY(engine.queue().finish());  // the pictures are encoded
  const int64_t start = now_ns();
  OCELLUS_TRY(ChunkReduction(engine, reduction_, memory_, scratch).run(row_ms_));
  *spent_ms += elapsed_ms(start, now_ns());
  return {};
}

/// Keeps a running mean, which follows a machine that slows down. Few rows tell nothing of many.
void PictureReduction::note_time(double spent_ms, int64_t rows) {
  constexpr int64_t kLeastRows = 32;
  if (rows < kLeastRows) return;
  const double row_ms = spent_ms / static_cast<double>(rows);
  row_ms_ = row_ms_ == 0 ? row_ms : 0.75 * row_ms_ + 0.25 * row_ms;
}

}  // namespace ocellus

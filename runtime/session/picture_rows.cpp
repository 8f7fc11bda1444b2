#include "runtime/session/picture_rows.h"

#include <algorithm>

#include "kernels/linear/elementwise.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/picture_source.h"
#include "runtime/models/delimiter_tokens.h"

namespace ocellus {
namespace {

/// Adds the time that it lives to a sum.
class AddedTime {
 public:
  explicit AddedTime(double* sum_ms) : sum_ms_(*sum_ms), start_(now_ns()) {}
  AddedTime(const AddedTime&) = delete;
  AddedTime& operator=(const AddedTime&) = delete;
  ~AddedTime() { sum_ms_ += elapsed_ms(start_, now_ns()); }

 private:
  double& sum_ms_;
  const int64_t start_;
};

/// Writes the rows that end the lines of the map, if the piece at `first` holds it. No patch gives them attention or a
/// key: if there are `notes`, theirs become zeros.
void end_lines(const ViewPlan& plan, const ImagePiece& piece, int64_t first, const float* row_end,
               DeviceView<float> hidden, DeviceView<float> notes, Queue& queue) {
  const bool is_overview = piece.view_index == plan.overview_index();
  if (is_overview && plan.tile_count() > 0) return;
  if (is_overview && plan.rules->has_map) first += plan.view_rows;
  const int64_t line_rows = int64_t{plan.map.cols} + 1;
  const int32_t ended = plan.map.lines - (plan.rules->has_lines ? 1 : 0);
  for (int32_t line = 0; line < ended; ++line)
    queue.copy(hidden.row(first + line * line_rows + plan.map.cols), row_end,
               hidden.cols * static_cast<int64_t>(sizeof(float)));
  if (notes.rows > 0 && ended > 0)
    clamp_rows(
        {.values = DeviceView<float>(notes.row(first + plan.map.cols), ended, notes.cols, line_rows * notes.stride),
         .low = 0,
         .high = 0},
        queue);
}

}  // namespace

Status plan_picture(const PictureShape& shape, const Picture& picture, ViewPlan* plan) {
  OCELLUS_TRY(check_image_size(shape.limits, "picture", picture.width, picture.height));
  if (shape.frames_only != nullptr && !picture.is_of_clip)
    return OCELLUS_FAIL(Code::kUnsupported, "%s reads frames of clips only, no single pictures", shape.frames_only);
  const PreprocessConfig config = preprocess_of(shape, picture);
  OCELLUS_TRY(plan_views(picture.is_of_clip ? of_clip(config) : config, picture.width, picture.height, plan));
  if (config.planned_rows > 0 && plan->row_count() > config.planned_rows)
    return OCELLUS_FAIL(Code::kFull,
                        "the picture takes %lld rows, and memory is planned for %d (planned_image_rows): plan more, or "
                        "a lower bound of a picture's rows (max_image_rows)",
                        static_cast<long long>(plan->row_count()), config.planned_rows);
  if (picture.time.count > 1) place_in_time(picture.time, plan);
  return {};
}

Status count_delimiters(const Tokenizer& tokenizer, const ViewPlan& plan, int64_t* total) {
  DelimiterTokens tokens;
  *total = 0;
  ImagePiece piece;
  for (ImagePieces pieces(plan); pieces.next(&piece);) {
    if (piece.is_view()) continue;
    OCELLUS_TRY(tokens.encode(tokenizer, piece.text));
    *total += tokens.count();
  }
  return {};
}

Status average_image_rows(const PromptChunk& chunk, HostView<float> staging, float* mean, Queue& queue) {
  const int64_t width = chunk.inputs.cols;
  int64_t count = 0;
  for (int64_t p = 0; p < chunk.piece_count; ++p) {
    const Piece& piece = chunk.pieces.data[p];
    if (piece.kind != RowKind::kImage) continue;
    if (count + piece.row_count > staging.rows)
      return OCELLUS_FAIL(Code::kInternal, "%lld rows of a picture do not fit where %lld are averaged",
                          static_cast<long long>(count + piece.row_count), static_cast<long long>(staging.rows));
    queue.copy(staging.row(count), chunk.inputs.row(piece.first_row), piece.row_count * width * int64_t{sizeof(float)});
    count += piece.row_count;
  }
  OCELLUS_TRY(queue.finish());
  std::fill_n(mean, width, 0.0f);
  for (int64_t i = 0; i < count; ++i)
    for (int64_t e = 0; e < width; ++e) mean[e] += staging.row(i)[e];
  for (int64_t e = 0; e < width; ++e) mean[e] /= static_cast<float>(count);
  return {};
}

/// Until the views are encoded no other code may take scratch, which holds the pixels of a batch of one.
Status PictureRows::add(const Picture& picture, const ViewPlan& plan, int32_t ordinal, PromptChunk& chunk) {
  Engine& engine = conversation_.engine();
  EngineMemory& memory = engine.memory();
  Queue& queue = engine.queue();
  const ArenaScope scope(engine.arena());
  ImageScratch scratch;
  OCELLUS_TRY(engine.take_scratch(&scratch));
  PictureSource source(engine.shape().pictures, plan, scratch, memory.pictures.decoder, queue);
  {
    const TraceRange range(engine.trace(), "preprocess");
    const AddedTime time(&conversation_.stats().preprocess_ms);
    OCELLUS_TRY(source.open(picture));
  }
  DelimiterTokens tokens;
  ImagePiece piece;
  for (ImagePieces pieces(plan); pieces.next(&piece);) {
    if (!piece.is_view()) {
      OCELLUS_TRY(tokens.encode(engine.tokenizer(), piece.text));
      chunk.add_text(tokens.ids(), tokens.count());
      continue;
    }
    const int64_t first = chunk.row_count;
    for (int32_t view = piece.view_index; view < piece.view_index + piece.view_count; ++view) {
      RowPlace place = plan.row_place(view);
      place.first += first;
      if (!place.is_empty()) OCELLUS_TRY(add_view(picture, plan, view, place, source, scratch.vision));
    }
    chunk.add_image_rows(ordinal, piece.rows, piece.positions,
                         chunk.next_span(piece.rows, piece.positions, piece.cols, plan.earlier, plan.time));
    if (plan.rules->has_map || plan.rules->has_lines)
      end_lines(plan, piece, first, engine.vision().row_end, chunk.hidden, memory.pictures.notes, queue);
  }
  return queue.status();
}

/// Renders a view, which waits for others to be encoded with. A full batch is encoded before the next view is rendered
/// or, in its own memory, after all are rendered.
Status PictureRows::add_view(const Picture& picture, const ViewPlan& plan, int32_t view, const RowPlace& place,
                             PictureSource& source, const VisionScratch& scratch) {
  Engine& engine = conversation_.engine();
  const VisionConfig& vision = engine.vision().config;
  WaitingViews& waiting = engine.memory().pictures.waiting;
  if (waiting.full()) OCELLUS_TRY(encode_waiting(scratch));
  const TraceRange range(engine.trace(), "preprocess");
  const AddedTime time(&conversation_.stats().preprocess_ms);
  const ViewBatch next(vision, 1, plan.view_size(view), picture.frame_count());
  OCELLUS_TRY(source.render(picture, view, waiting.next_pixels(next, scratch)));
  waiting.add({place, next.size, next.frames});
  return waiting.full() ? waiting.drop_known(vision, scratch, engine.memory().chunk.inputs, engine.queue()) : Status();
}

Status PictureRows::encode_waiting(const VisionScratch& scratch) {
  Engine& engine = conversation_.engine();
  EngineMemory& memory = engine.memory();
  Queue& queue = engine.queue();
  take_time();
  queue.start_timer(kEncodeTimer);
  timed_ = true;
  OCELLUS_TRY(
      memory.pictures.waiting.encode(engine.vision(), scratch, memory.chunk.inputs, &conversation_.stop(), queue));
  queue.stop_timer(kEncodeTimer);
  return queue.status();
}

Status PictureRows::encode() {
  Engine& engine = conversation_.engine();
  WaitingViews& waiting = engine.memory().pictures.waiting;
  if (waiting.count() > 0) {
    const ArenaScope scope(engine.arena());
    VisionScratch scratch;
    OCELLUS_TRY(engine.take_scratch(&scratch));
    OCELLUS_TRY(encode_waiting(scratch));
  }
  conversation_.stats().note_views(waiting.take_counts());
  return {};
}

void PictureRows::forget_from(int64_t first_row) {
  WaitingViews& waiting = conversation_.engine().memory().pictures.waiting;
  conversation_.engine().queue().clear();
  waiting.forget_from(first_row);
  (void)waiting.take_counts();
  timed_ = false;
}

void PictureRows::take_time() {
  if (timed_) conversation_.stats().encode_ms += conversation_.engine().queue().timer_ms(kEncodeTimer);
  timed_ = false;
}

}  // namespace ocellus

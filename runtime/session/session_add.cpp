// Adding text and images to a session: from bytes to rows in the prompt chunk.
#include <algorithm>
#include <utility>

#include "runtime/engine/engine.h"
#include "runtime/engine/picture_source.h"
#include "runtime/models/delimiter_tokens.h"
#include "runtime/session/session.h"

namespace ocellus {
namespace {

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

/// Writes the rows that end the lines of the tiles' map, if `piece` holds it.
void end_lines(const ViewPlan& plan, const ImagePiece& piece, const float* row_end, DeviceView<float> rows,
               Queue& queue) {
  const bool is_overview = piece.view_index == plan.overview_index();
  if (is_overview && plan.tile_count() > 0) return;
  const DeviceView<float> map = is_overview ? rows.slice_rows(plan.view_rows, plan.map.rows()) : rows;
  for (int32_t line = 0; line < plan.map.lines; ++line)
    queue.copy(map.row(int64_t{line} * (plan.map.cols + 1) + plan.map.cols), row_end,
               map.cols * static_cast<int64_t>(sizeof(float)));
}

}  // namespace

Status Session::add_start_token() {
  const TokenId start = engine_->tokenizer().facts().start_token();
  if (!text_started_ && start != kNoToken) {
    OCELLUS_TRY(make_room(1, 0));
    OCELLUS_TRY(check_room(1, 0));
    OCELLUS_TRY(append_text_rows(&start, 1));
  }
  text_started_ = true;
  return {};
}

int32_t Session::next_image() const {
  const PromptChunk& chunk = engine_->memory().chunk;
  if (holds_chunk() && chunk.linked_image_count > 0)
    return chunk.linked_images.data[chunk.linked_image_count - 1].ordinal + 1;
  if (holds_chunk())
    for (int64_t i = chunk.piece_count - 1; i >= 0; --i)
      if (chunk.pieces.data[i].kind == RowKind::kImage) return chunk.pieces.data[i].image_ordinal + 1;
  return cache().image_count();
}

Status Session::add_system(std::string_view text) {
  OCELLUS_TRY(start_adding());
  if (text_started_ || has_system_)
    return OCELLUS_FAIL(Code::kBadArgument, "the system prompt comes before everything else: reset the session first");
  const TurnText& texts = turn_text(engine_->model().chat_template());
  OCELLUS_TRY(add_template_text(texts.system_open, false));
  OCELLUS_TRY(add_text_piece(text, false, false));
  OCELLUS_TRY(add_template_text(texts.system_close, true));
  has_system_ = true;
  return {};
}

Status Session::begin_turn() {
  OCELLUS_TRY(start_adding());
  utf8_.finish();
  const TurnText& texts = turn_text(engine_->model().chat_template());
  if (conversation_started_) {
    OCELLUS_TRY(add_template_text(texts.answer_end, true));
    OCELLUS_TRY(add_template_text(texts.user_later, false));
  } else {
    OCELLUS_TRY(add_template_text(has_system_ ? texts.user_after_system : texts.user_first, has_system_));
  }
  conversation_started_ = true;
  return {};
}

Status Session::end_turn() {
  const TurnText& texts = turn_text(engine_->model().chat_template());
  const CachePolicy& policy = engine_->shape().policy;
  if (!policy.compresses() || policy.when != CompressAt::kBeforeSuffix)
    return add_template_text(texts.user_close, true);
  return add_user_close(texts);
}

/// Adds the end of the turn, and has everything read and compressed that comes before the suffix. The text is encoded
/// as a whole: at the joint tokens could come out differently.
Status Session::add_user_close(const TurnText& texts) {
  const TraceRange range(engine_->trace(), "add text");
  OCELLUS_TRY(start_adding());
  OCELLUS_TRY(add_start_token());
  DelimiterTokens suffix;
  OCELLUS_TRY(suffix.encode(engine_->tokenizer(), texts.suffix));
  int64_t count = 0;
  OCELLUS_TRY(encode_text(texts.user_close, true, true, &count));
  OCELLUS_TRY(make_room(count, 0));
  OCELLUS_TRY(check_room(count, 0));
  const TokenId* ids = engine_->memory().token_ids.data;
  const int64_t before = std::max<int64_t>(0, count - suffix.count());
  OCELLUS_TRY(append_text_rows(ids, before));
  OCELLUS_TRY(read_chunk());
  take_chunk();
  OCELLUS_TRY(append_text_rows(ids + before, count - before));
  for (int64_t i = 0; i < count; ++i) remember_token(ids[i]);
  return {};
}

/// `continues`: the text follows other text directly (a SentencePiece vocabulary then adds no space before it).
Status Session::add_template_text(const char* text, bool continues) { return add_text_piece(text, true, continues); }

Status Session::encode_text(std::string_view text, bool parse_special, bool continues, int64_t* count) {
  const int64_t size = static_cast<int64_t>(text.size());
  if (size > engine_->shape().text_bytes)
    return OCELLUS_FAIL(Code::kFull, "a text of %lld bytes is too long: %lld were planned; plan more text tokens",
                        static_cast<long long>(size), static_cast<long long>(engine_->shape().text_bytes));
  const ArenaScope scope(engine_->arena());
  TextScratch scratch;
  OCELLUS_TRY(scratch.lay_out(engine_->shape(), engine_->arena()));
  const HostView<TokenId>& ids = engine_->memory().token_ids;
  return engine_->tokenizer().encode(text, parse_special, scratch.workspace.data, scratch.workspace.cols, ids.data,
                                     ids.cols, count, continues);
}

Status Session::add_text(std::string_view text, bool parse_special) {
  return add_text_piece(text, parse_special, false);
}

Status Session::add_text_piece(std::string_view text, bool parse_special, bool continues) {
  const TraceRange range(engine_->trace(), "add text");
  OCELLUS_TRY(start_adding());
  if (text.empty()) return {};
  utf8_.finish();
  OCELLUS_TRY(add_start_token());
  int64_t count = 0;
  OCELLUS_TRY(encode_text(text, parse_special, continues, &count));
  OCELLUS_TRY(make_room(count, 0));
  OCELLUS_TRY(check_room(count, 0));
  const TokenId* ids = engine_->memory().token_ids.data;
  OCELLUS_TRY(append_text_rows(ids, count));
  for (int64_t i = 0; i < count; ++i) remember_token(ids[i]);
  return {};
}

Status Session::check_tokens(const TokenId* tokens, int64_t count) const {
  for (int64_t i = 0; i < count; ++i)
    if (tokens[i] < 0 || tokens[i] >= engine_->text().config.vocabulary)
      return OCELLUS_FAIL(Code::kBadArgument, "token %d at index %lld is not in the vocabulary of %d", tokens[i],
                          static_cast<long long>(i), engine_->text().config.vocabulary);
  return {};
}

Status Session::add_tokens(const TokenId* tokens, int64_t count) {
  const TraceRange range(engine_->trace(), "add text");
  OCELLUS_TRY(start_adding());
  utf8_.finish();
  OCELLUS_TRY(check_tokens(tokens, count));
  OCELLUS_TRY(make_room(count, 0));
  OCELLUS_TRY(check_room(count, 0));
  text_started_ = true;
  OCELLUS_TRY(append_text_rows(tokens, count));
  for (int64_t i = 0; i < count; ++i) remember_token(tokens[i]);
  return {};
}

/// Appends tokens to the chunk, reading the chunk whenever it is full.
Status Session::append_text_rows(const TokenId* tokens, int64_t count) {
  PromptChunk& chunk = engine_->memory().chunk;
  for (int64_t done = 0; done < count;) {
    if (chunk.room() == 0) {
      OCELLUS_TRY(read_chunk());
      take_chunk();
    }
    const int64_t piece = std::min(count - done, chunk.room());
    chunk.add_text(tokens + done, piece);
    done += piece;
  }
  note_prefix(tokens, count);
  return {};
}

Status Session::add_frame(const Frame& frame) {
  return add_picture({.frame = &frame, .width = frame.width, .height = frame.height});
}

Status Session::add_encoded_image(const uint8_t* bytes, int64_t byte_count) {
  ImageFacts facts;
  OCELLUS_TRY(probe_image(bytes, byte_count, engine_->shape().image_limits, &facts));
  return add_picture(encoded_picture(bytes, byte_count, facts));
}

Status Session::add_picture(const Picture& picture) {
  const TraceRange range(engine_->trace(), "add image");
  const EngineShape& shape = engine_->shape();
  if (shape.images_per_session == 0) return OCELLUS_FAIL(Code::kFull, "no images were planned: plan at least one");
  OCELLUS_TRY(check_image_size(shape.image_limits, "picture", picture.width, picture.height));
  ViewPlan plan;
  OCELLUS_TRY(plan_views(shape.preprocess, picture.width, picture.height, &plan));
  OCELLUS_TRY(prepare_rows(plan));
  OCELLUS_TRY(add_picture_rows(picture, plan));
  const bool at_once = shape.policy.compresses() && shape.policy.when == CompressAt::kImageEnd;
  return at_once ? read_chunk() : Status();
}

/// Begins an addition and makes room in the chunk and the cache for an image's rows and the texts around its views.
Status Session::prepare_rows(const ViewPlan& plan) {
  const EngineShape& shape = engine_->shape();
  const PromptChunk& chunk = engine_->memory().chunk;
  OCELLUS_TRY(start_adding());
  utf8_.finish();
  int64_t text_rows = 0;
  OCELLUS_TRY(count_delimiters(engine_->tokenizer(), plan, &text_rows));
  const int64_t image_rows = plan.row_count();
  OCELLUS_TRY(make_room(text_rows, image_rows));
  if (next_image() >= shape.images_per_session)
    return OCELLUS_FAIL(Code::kFull, "the session holds its planned %d images already: plan more images",
                        shape.images_per_session);
  OCELLUS_TRY(add_start_token());
  OCELLUS_TRY(check_room(text_rows, image_rows));
  if (chunk.room() < text_rows + (shape.links ? std::min(image_rows, shape.input_rows) : image_rows)) {
    OCELLUS_TRY(read_chunk());
    take_chunk();
  }
  return {};
}

/// All of a picture's rows or none; where text before them was read already, that goes with them.
Status Session::add_picture_rows(const Picture& picture, const ViewPlan& plan) {
  const EngineShape& shape = engine_->shape();
  PromptChunk& chunk = engine_->memory().chunk;
  const PromptChunk::Mark mark = chunk.mark();
  const bool was_read = std::exchange(chunk_was_read_, false);
  Status status = shape.in_context ? add_in_context(picture, plan)
                  : shape.links    ? link_picture(picture, plan)
                                   : add_views(picture, plan, chunk);
  if (status.ok() && engine_->memory().waiting_views.full()) status = encode_last_views();
  const bool reads = std::exchange(chunk_was_read_, chunk_was_read_ || was_read);
  if (status.ok()) return {};
  engine_->queue().clear();
  encode_timed_ = false;
  if (reads) {
    forget_prompt();
    return status;
  }
  chunk.rewind(mark);
  engine_->memory().waiting_views.forget_from(mark.row_count);
  return status;
}

/// Appends the rows of a picture and the texts around its views to the chunk, which has room for them. The pixels of
/// the views are made now; a full batch of views is encoded before the next view is made or, in its own memory, when
/// all are made. Until then nothing else may take scratch, where the pixels of a batch of one lie.
Status Session::add_views(const Picture& picture, const ViewPlan& plan, PromptChunk& chunk) {
  const VisionConfig& vision = engine_->vision().config;
  WaitingViews& waiting = engine_->memory().waiting_views;
  Queue& queue = engine_->queue();
  const ArenaScope scope(engine_->arena());
  ImageScratch scratch;
  OCELLUS_TRY(scratch.lay_out(engine_->model(), engine_->shape(), engine_->memory().picture_staging, engine_->arena()));
  const int32_t ordinal = next_image();
  PictureSource source(engine_->shape(), plan, scratch, engine_->memory().image_decoder, queue);
  DelimiterTokens tokens;
  int64_t start = now_ns();
  {
    const TraceRange range(engine_->trace(), "preprocess");
    OCELLUS_TRY(source.open(picture));
  }
  ImagePiece piece;
  for (ImagePieces pieces(plan); pieces.next(&piece);) {
    if (!piece.is_view()) {
      OCELLUS_TRY(tokens.encode(engine_->tokenizer(), piece.text));
      chunk.add_text(tokens.ids(), tokens.count());
      continue;
    }
    const int64_t first = chunk.row_count;
    for (int32_t view = piece.view_index; view < piece.view_index + piece.view_count; ++view) {
      RowPlace place = plan.row_place(view);
      if (place.is_empty()) continue;  // padding alone, of which nothing stays
      if (waiting.full()) {
        prompt_.preprocess_ms += elapsed_ms(start, now_ns());
        OCELLUS_TRY(encode_waiting_views(scratch.vision));
        start = now_ns();
      }
      const TraceRange range(engine_->trace(), "preprocess");
      OCELLUS_TRY(source.render(view, waiting.next_pixels(vision, scratch.vision, 1)));
      place.first += first;
      waiting.add(place);
    }
    chunk.add_image_rows(ordinal, piece.rows);
    if (plan.rules->has_map)
      end_lines(plan, piece, engine_->vision().row_end, chunk.hidden.slice_rows(first, piece.rows), queue);
  }
  prompt_.preprocess_ms += elapsed_ms(start, now_ns());
  return queue.status();
}

Status Session::encode_waiting_views(const VisionScratch& scratch) {
  EngineMemory& memory = engine_->memory();
  Queue& queue = engine_->queue();
  take_encode_time();
  queue.start_timer(Queue::kEncodeTimer);
  encode_timed_ = true;
  OCELLUS_TRY(memory.waiting_views.encode(engine_->vision(), scratch, memory.chunk.hidden, &stop_, queue));
  queue.stop_timer(Queue::kEncodeTimer);
  return queue.status();
}

/// Encodes the views that still wait.
Status Session::encode_last_views() {
  const EngineShape& shape = engine_->shape();
  if (engine_->memory().waiting_views.count() == 0) return {};
  const ArenaScope scope(engine_->arena());
  VisionScratch scratch;
  OCELLUS_TRY(scratch.lay_out(engine_->vision().config, shape.view_batch, shape.device, engine_->arena()));
  return encode_waiting_views(scratch);
}

/// Adds the time of the latest encoding to the statistics, once.
void Session::take_encode_time() {
  if (encode_timed_) prompt_.encode_ms += engine_->queue().timer_ms(Queue::kEncodeTimer);
  encode_timed_ = false;
}

}  // namespace ocellus

// Conversion of text and pictures to rows of the prompt chunk.
#include <algorithm>

#include "runtime/engine/engine.h"
#include "runtime/engine/picture_source.h"
#include "runtime/models/delimiter_tokens.h"
#include "runtime/session/prompt.h"

namespace ocellus {
namespace {

/// Line breaks that are tokenised together. Longer runs are rare, and no vocabulary has a token of as many.
constexpr int32_t kMostLineBreaks = 32;

Status encode_line_breaks(const Tokenizer& tokenizer, int32_t count, DelimiterTokens* tokens) {
  char text[kMostLineBreaks + 1] = {};
  std::fill_n(text, count, '\n');
  return tokens->encode(tokenizer, text);
}

/// Removes all of these characters from one end of the text; returns their number.
template <bool kFront>
int32_t strip(char stripped, std::string_view* text) {
  int32_t count = 0;
  for (; !text->empty() && (kFront ? text->front() : text->back()) == stripped; ++count)
    kFront ? text->remove_prefix(1) : text->remove_suffix(1);
  return count;
}

/// If pictures have line breaks around them, those at the beginning of a text join those that wait, and those at its
/// end wait for what follows: they may be one token.
Status hold_line_breaks(Conversation& conversation, Prompt& prompt, std::string_view* text) {
  if (conversation.engine().model().picture_line_breaks() == 0) return {};
  int32_t& waiting = conversation.state().line_breaks;
  waiting += strip<true>('\n', text);
  if (text->empty()) return {};
  OCELLUS_TRY(prompt.add_line_breaks());
  waiting = strip<false>('\n', text);
  return {};
}

}  // namespace

Status encode_text(Engine& engine, std::string_view text, bool parse_special, bool continues, int64_t* count) {
  const int64_t size = static_cast<int64_t>(text.size());
  if (size > engine.shape().session.text_bytes())
    return OCELLUS_FAIL(Code::kFull, "a text of %lld bytes is too long: %lld were planned; plan more text tokens",
                        static_cast<long long>(size), static_cast<long long>(engine.shape().session.text_bytes()));
  const ArenaScope scope(engine.arena());
  TextScratch scratch;
  OCELLUS_TRY(engine.take_scratch(&scratch));
  const HostView<TokenId>& ids = engine.memory().token_ids;
  return engine.tokenizer().encode(text, parse_special, scratch.workspace.data, scratch.workspace.cols, ids.data,
                                   ids.cols, count, continues);
}

Status check_tokens(const TextConfig& config, const TokenId* tokens, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    if (tokens[i] < 0 || tokens[i] >= config.vocabulary)
      return OCELLUS_FAIL(Code::kBadArgument, "token %d at index %lld is not in the vocabulary of %d", tokens[i],
                          static_cast<long long>(i), config.vocabulary);
  return {};
}

Status Prompt::add_text(std::string_view text, bool parse_special, bool continues) {
  const TraceRange range(conversation_.engine().trace(), "add text");
  OCELLUS_TRY(start());
  if (text.empty()) return {};
  conversation_.characters().finish();
  OCELLUS_TRY(add_start_token());
  OCELLUS_TRY(hold_line_breaks(conversation_, *this, &text));
  int64_t count = 0;
  OCELLUS_TRY(encode_text(conversation_.engine(), text, parse_special, continues, &count));
  OCELLUS_TRY(make_room(RowNeed::of_text(count)));
  return append_encoded(0, count);
}

/// The text is encoded as a whole: at the joint tokens could differ otherwise.
Status Prompt::add_closing(std::string_view text, const char* suffix) {
  const TraceRange range(conversation_.engine().trace(), "add text");
  OCELLUS_TRY(start());
  OCELLUS_TRY(add_start_token());
  OCELLUS_TRY(add_line_breaks());
  DelimiterTokens end;
  OCELLUS_TRY(end.encode(conversation_.engine().tokenizer(), suffix));
  int64_t count = 0;
  OCELLUS_TRY(encode_text(conversation_.engine(), text, true, true, &count));
  OCELLUS_TRY(make_room(RowNeed::of_text(count)));
  const int64_t before = std::max<int64_t>(0, count - end.count());
  OCELLUS_TRY(append_encoded(0, before));
  OCELLUS_TRY(read_and_borrow());
  return append_encoded(before, count - before);
}

Status Prompt::add_tokens(const TokenId* tokens, int64_t count) {
  const TraceRange range(conversation_.engine().trace(), "add text");
  OCELLUS_TRY(start());
  conversation_.characters().finish();
  OCELLUS_TRY(check_tokens(conversation_.engine().text().config, tokens, count));
  OCELLUS_TRY(add_line_breaks());
  OCELLUS_TRY(make_room(RowNeed::of_text(count)));
  conversation_.state().has_text = true;
  OCELLUS_TRY(append(tokens, count));
  for (int64_t i = 0; i < count; ++i) conversation_.remember(tokens[i]);
  return {};
}

Status Prompt::add_start_token() {
  const TokenId start = conversation_.engine().tokenizer().facts().start_token();
  bool& has_text = conversation_.state().has_text;
  if (!has_text && start != kNoToken) {
    OCELLUS_TRY(make_room(RowNeed::of_text(1)));
    OCELLUS_TRY(append(&start, 1));
  }
  has_text = true;
  return {};
}

Status Prompt::add_line_breaks() {
  int32_t& waiting = conversation_.state().line_breaks;
  while (waiting > 0) {
    const int32_t together = std::min(waiting, kMostLineBreaks);
    DelimiterTokens tokens;
    OCELLUS_TRY(encode_line_breaks(conversation_.engine().tokenizer(), together, &tokens));
    OCELLUS_TRY(make_room(RowNeed::of_text(tokens.count())));
    OCELLUS_TRY(append(tokens.ids(), tokens.count()));
    for (int64_t i = 0; i < tokens.count(); ++i) conversation_.remember(tokens.ids()[i]);
    waiting -= together;
  }
  return {};
}

Status Prompt::append_encoded(int64_t first, int64_t count) {
  const TokenId* const tokens = conversation_.engine().memory().token_ids.data + first;
  OCELLUS_TRY(append(tokens, count));
  for (int64_t i = 0; i < count; ++i) conversation_.remember(tokens[i]);
  return {};
}

/// Appends tokens to the chunk, and reads the chunk whenever it is full.
Status Prompt::append(const TokenId* tokens, int64_t count) {
  PromptChunk& chunk = this->chunk();
  for (int64_t done = 0; done < count;) {
    if (chunk.room() == 0) OCELLUS_TRY(read_and_borrow());
    const int64_t piece = std::min(count - done, chunk.room());
    chunk.add_text(tokens + done, piece);
    done += piece;
  }
  conversation_.note_prompt(tokens, count);
  return {};
}

Status Prompt::add_picture(const Picture& picture) {
  Engine& engine = conversation_.engine();
  const TraceRange range(engine.trace(), "add image");
  const EngineShape& shape = engine.shape();
  if (!shape.pictures.planned()) return OCELLUS_FAIL(Code::kFull, "no images were planned: plan at least one");
  ViewPlan plan;
  OCELLUS_TRY(plan_picture(shape.pictures, picture, &plan));
  OCELLUS_TRY(prepare_picture(plan));
  const Checkpoint before = mark();
  if (const Status status = begin_picture(plan); !status.ok()) return end_picture(status, before);
  if (shape.reuse.in_context()) return end_picture(add_in_context(picture, plan), before);
  if (reuse_.links()) return end_picture(reuse_.link(picture, plan, chunk()), before);
  int32_t ordinal = before.images;
  // Beside linked images every image has its blocks from the beginning: see reserve_rows.
  if (shape.reuse.links() && !shape.reuse.staged) {
    if (const Status status = conversation_.cache().reserve_image(&ordinal); !status.ok())
      return end_picture(status, before);
  }
  return end_picture(pictures_.add(picture, plan, ordinal, chunk()), before);
}

Status Prompt::add_library_image(const LibraryKey& key) {
  const TraceRange range(conversation_.engine().trace(), "add image");
  EntryFacts facts;
  ViewPlan plan;
  OCELLUS_TRY(reuse_.require_library());
  conversation_.begin_prompt();
  OCELLUS_TRY(conversation_.stop().check());
  OCELLUS_TRY(reuse_.find(key, &facts, &plan));
  OCELLUS_TRY(prepare_picture(plan));
  const Checkpoint before = mark();
  if (const Status status = begin_picture(plan); !status.ok()) return end_picture(status, before);
  return end_picture(reuse_.link_entry(facts, plan, chunk()), before);
}

/// Makes room in the chunk and the cache for a picture's rows and the texts around its views.
Status Prompt::prepare_picture(const ViewPlan& plan) {
  const EngineShape& shape = conversation_.engine().shape();
  OCELLUS_TRY(start());
  conversation_.characters().finish();
  int64_t text_rows = 0;
  OCELLUS_TRY(count_delimiters(conversation_.engine().tokenizer(), plan, &text_rows));
  text_rows += plan.rules->marks.line_breaks + conversation_.state().line_breaks;  // at most
  const int64_t image_rows = plan.row_count();
  const RowNeed need{.text = text_rows, .images = 1, .positions = text_rows + plan.position_count()};
  OCELLUS_TRY(roll(need));
  if (conversation_.cache().image_count() + waiting().images >= shape.pictures.per_session)
    return OCELLUS_FAIL(Code::kFull, "the session holds its planned %d images already: plan more images",
                        shape.pictures.per_session);
  OCELLUS_TRY(add_start_token());
  OCELLUS_TRY(room_.check(need, waiting()));
  const int64_t rows = text_rows + (reuse_.links() ? std::min(image_rows, shape.reuse.input_rows) : image_rows);
  return chunk().room() < rows ? read_and_borrow() : Status();
}

/// Adds the line breaks before a picture; those after it wait. Without them in its family there are none.
Status Prompt::begin_picture(const ViewPlan& plan) {
  conversation_.state().line_breaks += plan.rules->marks.line_breaks;
  OCELLUS_TRY(add_line_breaks());
  conversation_.state().line_breaks = plan.rules->marks.line_breaks;
  return {};
}

/// Ends the addition of a picture, whose rows are in the chunk or failed half way.
Status Prompt::end_picture(Status status, const Checkpoint& before) {
  Engine& engine = conversation_.engine();
  if (status.ok() && engine.memory().waiting_views.full()) status = pictures_.encode();
  if (!status.ok()) {
    pictures_.forget_from(before.chunk.row_count);
    go_back(before);
    return status;
  }
  const CachePolicy& policy = engine.shape().policy;
  return policy.compresses() && policy.when == CompressAt::kImageEnd ? read() : Status();
}

/// Prefix caching, in blocks of one image: an image is read in its prompt, after everything before it, and comes from
/// the library if exactly the same precedes it again. Its slots are then those of a prompt that is read as a whole. The
/// text between images is read in any case: it is short in comparison.
Status Prompt::add_in_context(const Picture& picture, const ViewPlan& plan) {
  EntryFacts facts;
  bool found = false;
  OCELLUS_TRY(reuse_.identify(picture, plan, &facts));
  const Status status = reuse_.recall(facts, plan, chunk(), &found);
  if (reuse_.library() != nullptr) conversation_.stats().note_search(found);
  OCELLUS_TRY(status);
  if (!found) OCELLUS_TRY(read_in_context(picture, plan, facts));
  uint64_t& prefix = conversation_.state().prefix_hash;
  for (const uint64_t part : {facts.content.high, facts.content.low, static_cast<uint64_t>(facts.tile_cols)})
    prefix = prefix_of(prefix, part);
  return conversation_.engine().queue().status();
}

/// Reads everything before the image, and then the image by itself, so that its slots do not depend on the division of
/// its prompt into chunks: packed images are seen as packed.
Status Prompt::read_in_context(const Picture& picture, const ViewPlan& plan, const EntryFacts& facts) {
  int32_t ordinal = 0;
  OCELLUS_TRY(read_and_borrow());
  const int64_t start = now_ns();
  OCELLUS_TRY(conversation_.cache().reserve_image(&ordinal));
  reuse_.prepare_to_keep(ordinal);
  OCELLUS_TRY(pictures_.add(picture, plan, ordinal, chunk()));
  OCELLUS_TRY(pictures_.encode());
  reuse_.note_embedding(chunk());
  OCELLUS_TRY(read_and_borrow());
  reuse_.keep_image(facts, ordinal, elapsed_ms(start, now_ns()), chunk());
  return {};
}

}  // namespace ocellus

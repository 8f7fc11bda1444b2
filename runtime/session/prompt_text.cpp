// Conversion of text to rows of the prompt chunk.
#include <algorithm>

#include "runtime/engine/engine.h"
#include "runtime/models/delimiter_tokens.h"
#include "runtime/session/prompt.h"

namespace ocellus {
namespace {

Status refuse_length(const Engine& engine, int64_t bytes) {
  return OCELLUS_FAIL(Code::kFull, "a text of %lld bytes is too long: %lld were planned; plan more text tokens",
                      static_cast<long long>(bytes), static_cast<long long>(engine.shape().session.text_bytes()));
}

}  // namespace

Status encode_text(Engine& engine, std::string_view text, bool continues, int64_t* count) {
  const int64_t size = std::ssize(text);
  if (size > engine.shape().session.text_bytes()) return refuse_length(engine, size);
  const ArenaScope scope(engine.arena());
  TextScratch scratch;
  OCELLUS_TRY(engine.take_scratch(&scratch));
  const HostView<TokenId>& ids = engine.memory().token_ids;
  return engine.tokenizer().encode(text, false, scratch.workspace.data, scratch.workspace.cols, ids.data, ids.cols,
                                   count, continues);
}

MessageWriter PromptText::writer() {
  return {conversation_.engine().model().layout(), conversation_.state().message, *this};
}

/// Adds all that is written, or nothing.
template <class Write>
Status PromptText::write_whole(Write write) {
  const TraceRange range(conversation_.engine().trace(), "add text");
  OCELLUS_TRY(prompt_.start());
  conversation_.characters().finish();
  const KeptText kept(conversation_);
  const Checkpoint before = prompt_.mark();
  Status status = prompt_.add_start_token();
  if (status.ok()) status = write();
  if (!status.ok()) prompt_.go_back(before);
  return status;
}

Status PromptText::begin_message(Role role) {
  const ConversationState& state = conversation_.state();
  const bool is_raw = state.has_text && !state.message.any;
  if (is_raw && role == Role::kSystem)
    return OCELLUS_FAIL(Code::kBadArgument, "the system prompt comes before everything else: reset the session first");
  const std::string_view usual = is_raw ? std::string_view() : conversation_.engine().model().default_system();
  OCELLUS_TRY(write_whole([&] { return writer().begin(role, usual); }));
  conversation_.state().thought = {};
  return {};
}

Status PromptText::end_message() {
  return write_whole([&] { return writer().end(); });
}

Status PromptText::write_answer() {
  OCELLUS_TRY(writer().open_answer());
  return flush();
}

Status PromptText::open_answer() {
  OCELLUS_TRY(write_whole([&] { return write_answer(); }));
  conversation_.state().thought = conversation_.engine().model().thought_marks().begin();
  return {};
}

/// All that comes before the text after which the model answers may have to be read and compressed before it.
Status PromptText::end_turn() {
  const Engine& engine = conversation_.engine();
  const CachePolicy& policy = engine.shape().policy;
  if (!policy.compresses() || policy.when != CompressAt::kBeforeSuffix) {
    const auto write_end = [&] {
      OCELLUS_TRY(writer().end());
      return write_answer();
    };
    OCELLUS_TRY(write_whole(write_end));
    conversation_.state().thought = engine.model().thought_marks().begin();
    return {};
  }
  const PromptLayout& layout = engine.model().layout();
  const char* const text = layout.text_before_answer(conversation_.state().message.thinks);
  if (text[0] != '\0') OCELLUS_TRY(end_message());
  OCELLUS_TRY(add_closing(text[0] != '\0' ? text : layout.user.after));
  conversation_.state().message.open_answer();
  conversation_.state().thought = engine.model().thought_marks().begin();
  return {};
}

Status PromptText::let_think(bool thinks) {
  const ConversationState& state = conversation_.state();
  if (state.has_text || state.message.any)
    return OCELLUS_FAIL(Code::kBadArgument, "a model is told to think before everything else: reset the session first");
  conversation_.state().message.thinks = thinks;
  return {};
}

Status PromptText::add(std::string_view text, bool parse_special) {
  if (text.empty() && !conversation_.state().message.is_open) return prompt_.start();
  return write_whole([&] {
    OCELLUS_TRY(writer().add_text(text, parse_special));
    return conversation_.state().message.is_open ? Status() : flush_raw();
  });
}

/// Text outside messages waits no longer than its call, so that a prompt is read in the same pieces whatever other
/// sessions add: all but the line breaks at its end, where pictures have line breaks around them.
Status PromptText::flush_raw() {
  end_head();
  const std::string_view text = conversation_.text().all();
  const ViewRules* const rules = conversation_.engine().shape().pictures.preprocess.rules;
  const bool may_join = rules != nullptr && rules->marks.line_breaks > 0;
  const size_t kept = may_join ? text.size() - (text.find_last_not_of('\n') + 1) : 0;
  conversation_.state().text.place -= static_cast<int64_t>(kept);
  OCELLUS_TRY(flush_head());
  end_head();
  return {};
}

Status PromptText::add_words(std::string_view text) {
  return write_whole([&] {
    OCELLUS_TRY(write(text, true));
    end_head();
    return conversation_.engine().model().layout().is_plain ? flush() : Status();
  });
}

Status PromptText::begin_clip(bool is_numbered) {
  return write_whole([&] {
    OCELLUS_TRY(writer().begin_picture(true, is_numbered));
    return flush_head();
  });
}

Status PromptText::end_clip(bool is_numbered) {
  return write_whole([&] { return writer().end_picture(is_numbered); });
}

/// If it does not begin with a special token it is tokenised together with what waits: at the joint tokens could differ
/// otherwise.
Status PromptText::add_closing(const char* text) {
  OCELLUS_TRY(prompt_.start());
  OCELLUS_TRY(prompt_.add_start_token());
  const Tokenizer& tokenizer = conversation_.engine().tokenizer();
  size_t at = 0;
  if (tokenizer.find_control(text, &at) != kNoToken) {
    OCELLUS_TRY(flush());
    OCELLUS_TRY(prompt_.read_and_borrow());
    return write(text, true);
  }
  DelimiterTokens end;
  OCELLUS_TRY(end.encode(tokenizer, text));
  OCELLUS_TRY(wait(text));
  int64_t count = 0;
  OCELLUS_TRY(
      encode_text(conversation_.engine(), conversation_.text().all(), conversation_.state().text.continues, &count));
  OCELLUS_TRY(prompt_.make_room(RowNeed::of_text(count)));
  const int64_t before = std::max<int64_t>(0, count - end.count());
  OCELLUS_TRY(append_encoded(0, before));
  conversation_.text().drop_all();
  conversation_.state().text.continues = true;
  OCELLUS_TRY(prompt_.read_and_borrow());
  return append_encoded(before, count - before);
}

/// Control tokens are seams; what stands between them waits.
Status PromptText::write(std::string_view text, bool parse_special) {
  const Tokenizer& tokenizer = conversation_.engine().tokenizer();
  for (size_t at = 0; parse_special;) {
    const TokenId token = tokenizer.find_control(text, &at);
    if (token == kNoToken) break;
    OCELLUS_TRY(wait(text.substr(0, at)));
    OCELLUS_TRY(flush());
    OCELLUS_TRY(append_control(token));
    text.remove_prefix(at + tokenizer.piece(token, true).size());
  }
  return wait(text);
}

Status PromptText::write_head(std::string_view text) {
  if (conversation_.text().insert(text)) return {};
  return refuse_length(conversation_.engine(), std::ssize(text));
}

/// Text that will find no room is refused now, by the call that brought it. A token has at least a byte, but for the
/// space that a SentencePiece vocabulary puts before a text.
Status PromptText::wait(std::string_view text) {
  if (text.empty()) return {};
  WaitingText waiting_text = conversation_.text();
  if (!waiting_text.append(text)) return refuse_length(conversation_.engine(), std::ssize(text));
  const RowNeed most = RowNeed::of_text(std::ssize(waiting_text.all()) + 1);
  if (room_.has(most, prompt_.waiting())) return {};
  int64_t count = 0;
  OCELLUS_TRY(encode_text(conversation_.engine(), waiting_text.all(), conversation_.state().text.continues, &count));
  return prompt_.make_room(RowNeed::of_text(count));
}

Status PromptText::flush() {
  end_head();
  return flush_head();
}

Status PromptText::flush_head() {
  WaitingText text = conversation_.text();
  if (text.head().empty()) return {};
  int64_t count = 0;
  OCELLUS_TRY(encode_text(conversation_.engine(), text.head(), conversation_.state().text.continues, &count));
  OCELLUS_TRY(prompt_.make_room(RowNeed::of_text(count)));
  text.drop_head();
  if (text.empty()) text.drop_all();
  conversation_.state().text.continues = true;
  return append_encoded(0, count);
}

Status PromptText::append_encoded(int64_t first, int64_t count) {
  const TokenId* const tokens = conversation_.engine().memory().token_ids.data + first;
  OCELLUS_TRY(prompt_.append(tokens, count));
  for (int64_t i = 0; i < count; ++i) conversation_.remember(tokens[i]);
  return {};
}

Status PromptText::append_control(TokenId token) {
  OCELLUS_TRY(prompt_.make_room(RowNeed::of_text(1)));
  OCELLUS_TRY(prompt_.append(&token, 1));
  conversation_.remember(token);
  conversation_.state().text.continues = false;
  return {};
}

Status PromptText::write_before(const ViewPlan& plan, const PictureRole& role) {
  if (!role.is_frame) OCELLUS_TRY(writer().begin_picture(false, role.is_numbered));
  return write_line_breaks(plan.rules->marks.line_breaks);
}

Status PromptText::write_after(const ViewPlan& plan, const PictureRole& role) {
  OCELLUS_TRY(write_line_breaks(plan.rules->marks.line_breaks));
  return role.is_frame ? Status() : writer().end_picture(role.is_numbered);
}

Status PromptText::write_line_breaks(int32_t count) {
  for (int32_t i = 0; i < count; ++i) OCELLUS_TRY(write_head("\n"));
  return {};
}

Status PromptText::count_before(const ViewPlan& plan, const PictureRole& role, int64_t* count) {
  ConversationState& state = conversation_.state();
  const TextRange text = state.text;
  const MessageState message = state.message;
  const KeptText kept(conversation_);
  Status status = write_before(plan, role);
  if (status.ok())
    status = encode_text(conversation_.engine(), conversation_.text().head(), state.text.continues, count);
  state.text = text;
  state.message = message;
  return status;
}

Status PromptText::begin_picture(const ViewPlan& plan, const PictureRole& role) {
  OCELLUS_TRY(write_before(plan, role));
  OCELLUS_TRY(flush_head());
  conversation_.state().text.continues = false;
  return write_after(plan, role);
}

}  // namespace ocellus

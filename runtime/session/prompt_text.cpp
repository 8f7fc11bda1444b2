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

Status check_tokens(const TextConfig& config, const TokenId* tokens, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    if (tokens[i] < 0 || tokens[i] >= config.vocabulary)
      return OCELLUS_FAIL(Code::kBadArgument, "token %d at index %lld is not in the vocabulary of %d", tokens[i],
                          static_cast<long long>(i), config.vocabulary);
  return {};
}

MessageWriter Prompt::writer() {
  return {conversation_.engine().model().layout(), conversation_.state().message, *this};
}

/// Adds all that is written, or nothing.
template <class Write>
Status Prompt::write_whole(Write write) {
  const TraceRange range(conversation_.engine().trace(), "add text");
  OCELLUS_TRY(start());
  conversation_.characters().finish();
  const KeptText kept(conversation_);
  const Checkpoint before = mark();
  Status status = add_start_token();
  if (status.ok()) status = write();
  if (!status.ok()) go_back(before);
  return status;
}

Status Prompt::begin_message(Role role) {
  const ConversationState& state = conversation_.state();
  const bool is_new = !state.has_text && !state.message.any;
  const std::string_view usual = is_new ? conversation_.engine().model().default_system() : std::string_view();
  return write_whole([&] { return writer().begin(role, usual); });
}

Status Prompt::end_message() {
  return write_whole([&] { return writer().end(); });
}

Status Prompt::open_answer() {
  return write_whole([&] { return writer().open_answer(); });
}

Status Prompt::add_text(std::string_view text, bool parse_special) {
  if (text.empty() && !conversation_.state().message.is_open) return start();
  return write_whole([&] { return writer().add_text(text, parse_special); });
}

Status Prompt::add_words(std::string_view text) {
  return write_whole([&] {
    OCELLUS_TRY(write(text, true));
    end_head();
    return conversation_.engine().model().layout().is_plain ? flush() : Status();
  });
}

Status Prompt::begin_clip(bool is_numbered) {
  return write_whole([&] {
    OCELLUS_TRY(writer().begin_picture(true, is_numbered));
    return flush_head();
  });
}

Status Prompt::end_clip(bool is_numbered) {
  return write_whole([&] { return writer().end_picture(is_numbered); });
}

/// If it does not begin with a special token it is tokenised together with what waits: at the joint tokens could differ
/// otherwise.
Status Prompt::add_closing(const char* text) {
  OCELLUS_TRY(start());
  OCELLUS_TRY(add_start_token());
  const Tokenizer& tokenizer = conversation_.engine().tokenizer();
  size_t at = 0;
  if (tokenizer.find_control(text, &at) != kNoToken) {
    OCELLUS_TRY(flush());
    OCELLUS_TRY(read_and_borrow());
    return write(text, true);
  }
  DelimiterTokens end;
  OCELLUS_TRY(end.encode(tokenizer, text));
  OCELLUS_TRY(wait(text));
  int64_t count = 0;
  OCELLUS_TRY(encode_text(conversation_.engine(), conversation_.text().all(), conversation_.state().text.continues,
                          &count));
  OCELLUS_TRY(make_room(RowNeed::of_text(count)));
  const int64_t before = std::max<int64_t>(0, count - end.count());
  OCELLUS_TRY(append_encoded(0, before));
  conversation_.text().drop_all();
  conversation_.state().text.continues = true;
  OCELLUS_TRY(read_and_borrow());
  return append_encoded(before, count - before);
}

Status Prompt::add_tokens(const TokenId* tokens, int64_t count) {
  const TraceRange range(conversation_.engine().trace(), "add text");
  OCELLUS_TRY(start());
  conversation_.characters().finish();
  OCELLUS_TRY(check_tokens(conversation_.engine().text().config, tokens, count));
  OCELLUS_TRY(flush());
  OCELLUS_TRY(make_room(RowNeed::of_text(count)));
  conversation_.state().has_text = true;
  OCELLUS_TRY(append(tokens, count));
  for (int64_t i = 0; i < count; ++i) conversation_.remember(tokens[i]);
  conversation_.state().text.continues = false;
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

/// Control tokens are seams; what stands between them waits.
Status Prompt::write(std::string_view text, bool parse_special) {
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

Status Prompt::write_head(std::string_view text) {
  if (conversation_.text().insert(text)) return {};
  return refuse_length(conversation_.engine(), std::ssize(text));
}

/// Text that will find no room is refused now, by the call that brought it. A token has at least a byte, but for the
/// space that a SentencePiece vocabulary puts before a text.
Status Prompt::wait(std::string_view text) {
  if (text.empty()) return {};
  WaitingText waiting_text = conversation_.text();
  if (!waiting_text.append(text)) return refuse_length(conversation_.engine(), std::ssize(text));
  const RowNeed most = RowNeed::of_text(std::ssize(waiting_text.all()) + 1);
  if (room_.has(most, waiting())) return {};
  int64_t count = 0;
  OCELLUS_TRY(encode_text(conversation_.engine(), waiting_text.all(), conversation_.state().text.continues, &count));
  return make_room(RowNeed::of_text(count));
}

Status Prompt::flush() {
  end_head();
  return flush_head();
}

Status Prompt::flush_head() {
  WaitingText text = conversation_.text();
  if (text.head().empty()) return {};
  int64_t count = 0;
  OCELLUS_TRY(encode_text(conversation_.engine(), text.head(), conversation_.state().text.continues, &count));
  OCELLUS_TRY(make_room(RowNeed::of_text(count)));
  text.drop_head();
  if (text.empty()) text.drop_all();
  conversation_.state().text.continues = true;
  return append_encoded(0, count);
}

Status Prompt::append_encoded(int64_t first, int64_t count) {
  const TokenId* const tokens = conversation_.engine().memory().token_ids.data + first;
  OCELLUS_TRY(append(tokens, count));
  for (int64_t i = 0; i < count; ++i) conversation_.remember(tokens[i]);
  return {};
}

Status Prompt::append_control(TokenId token) {
  OCELLUS_TRY(make_room(RowNeed::of_text(1)));
  OCELLUS_TRY(append(&token, 1));
  conversation_.remember(token);
  conversation_.state().text.continues = false;
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

}  // namespace ocellus

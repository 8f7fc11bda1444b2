#include "runtime/session/score_choices.h"

#include <algorithm>
#include <cstring>

#include "runtime/engine/engine.h"
#include "runtime/models/delimiter_tokens.h"

namespace ocellus {

/// All that an answer changes in a conversation, to take it back: the conversation is then as if it had not been given.
class TriedAnswer {
 public:
  explicit TriedAnswer(Conversation& conversation)
      : conversation_(conversation),
        state_(conversation.state_),
        cache_(conversation.cache().mark()),
        checkpoint_(conversation.checkpoint_),
        has_prompt_(conversation.has_prompt_),
        has_ncar_(conversation.has_ncar_),
        drawn_count_(conversation.drawn_count_),
        stats_(conversation.stats_) {
    std::copy_n(recent_tokens(), kRecentTokens, recent_);
  }
  TriedAnswer(const TriedAnswer&) = delete;
  TriedAnswer& operator=(const TriedAnswer&) = delete;

  void take_back() const {
    Conversation& c = conversation_;
    c.cache().rewind(cache_);
    c.state_ = state_;
    c.checkpoint_ = checkpoint_;
    c.has_prompt_ = has_prompt_;
    c.has_ncar_ = has_ncar_;
    c.drawn_count_ = drawn_count_;
    c.stats_ = stats_;
    std::copy_n(recent_, kRecentTokens, recent_tokens());
  }

 private:
  TokenId* recent_tokens() const { return conversation_.engine().memory().recent_tokens.row(conversation_.slot()); }

  Conversation& conversation_;
  const ConversationState state_;
  const CacheMark cache_;
  const Checkpoint checkpoint_;
  const bool has_prompt_, has_ncar_;
  const uint64_t drawn_count_;
  const PromptStats stats_;
  TokenId recent_[kRecentTokens];
};

namespace {

/// Appends to the `count` tokens in the engine's buffer.
Status append(Engine& engine, const TokenId* tokens, int64_t more, int64_t* count) {
  const HostView<TokenId>& ids = engine.memory().token_ids;
  if (*count + more > ids.cols)
    return OCELLUS_FAIL(Code::kFull, "%lld tokens of a choice are too many: %lld were planned; plan more text tokens",
                        static_cast<long long>(*count + more), static_cast<long long>(ids.cols));
  std::copy_n(tokens, more, ids.data + *count);
  *count += more;
  return {};
}

Status append_text(Engine& engine, const ocellus_choice& choice, int64_t* count) {
  const TurnText& texts = turn_text(engine.model().chat_template());
  char spaced[OCELLUS_MOST_CHOICE_BYTES + 1] = {' '};
  const auto bytes = static_cast<size_t>(choice.text_bytes);
  std::memcpy(spaced + 1, choice.text, bytes);
  const bool has_space = begins_with_space(texts, engine.tokenizer().facts().kind);
  const std::string_view text = has_space ? std::string_view(spaced, bytes + 1) : std::string_view(spaced + 1, bytes);
  OCELLUS_TRY(encode_text(engine, text, false, false, count));
  if (choice.may_go_on != 0) return {};
  if (texts.answer_end[0] == '\0') {
    const TokenId end = engine.tokenizer().facts().eos;
    return end != kNoToken ? append(engine, &end, 1, count) : Status();
  }
  DelimiterTokens end;
  OCELLUS_TRY(end.encode(engine.tokenizer(), texts.answer_end));
  return append(engine, end.ids(), end.count(), count);
}

/// Leaves the tokens of an answer in the engine's buffer: an empty thought, if the model always thinks, and the choice.
Status encode_choice(Engine& engine, const ocellus_choice& choice, ForcedAnswer* out) {
  TokenId* const ids = engine.memory().token_ids.data;
  const ThoughtMarks& marks = engine.model().thought_marks();
  int64_t count = 0;
  OCELLUS_TRY(append_text(engine, choice, &count));
  const int64_t scored = count;
  ThoughtState state = marks.begin();
  for (TokenId mark = marks.next(state); mark != kNoToken; mark = marks.next(state)) {
    OCELLUS_TRY(append(engine, &mark, 1, &count));
    marks.accept(mark, 0, &state);
  }
  std::rotate(ids, ids + scored, ids + count);
  *out = {.tokens = ids, .count = static_cast<int32_t>(count), .unscored = static_cast<int32_t>(count - scored)};
  return {};
}

/// Checks all choices and counts their tokens; *most: of the longest one.
Status check_choices(Session& session, ocellus_choice* choices, int32_t count, int32_t* most) {
  const CachePolicy& policy = session.engine().shape().policy;
  if (policy.evicts_answers() || policy.packs_oldest())
    return OCELLUS_FAIL(Code::kUnsupported,
                        "answers that are only scored are dropped again, and %s changes the cache by every token: plan "
                        "another method",
                        policy.evicts_answers() ? policy.evict->method().name : "kivi");
  if (count < 1) return OCELLUS_FAIL(Code::kBadArgument, "%d choices cannot be scored: give some", count);
  if (session.conversation().state().unread_token != kNoToken)
    return OCELLUS_FAIL(Code::kBadArgument, "an answer has begun: choices are scored after a prompt");
  for (int32_t i = 0; i < count; ++i) {
    ocellus_choice& choice = choices[i];
    if (choice.text == nullptr || choice.text_bytes < 1 || choice.text_bytes > OCELLUS_MOST_CHOICE_BYTES)
      return OCELLUS_FAIL(Code::kBadArgument, "choice %d has %lld bytes, not 1 to %d", i,
                          static_cast<long long>(choice.text == nullptr ? 0 : choice.text_bytes),
                          OCELLUS_MOST_CHOICE_BYTES);
    ForcedAnswer answer;
    OCELLUS_TRY(encode_choice(session.engine(), choice, &answer));
    OCELLUS_TRY(session.room().check_to_score(answer.count, session.prompt().waiting()));
    choice.token_count = answer.count - answer.unscored;
    *most = std::max(*most, answer.count);
  }
  return {};
}

/// Reads the prompt, and makes sure that the longest choice can be taken back.
Status prepare(Session& session, int32_t most) {
  Conversation& conversation = session.conversation();
  const bool was_read = session.prompt().waiting().is_none();
  conversation.begin_answer();
  if (const Status status = session.prompt().read_to_answer(); !status.ok()) {
    if (!was_read) session.prompt().forget();
    return status;
  }
  if (!conversation.state().is_answerable)
    return OCELLUS_FAIL(Code::kBadArgument, "there is nothing to answer: add text or an image first");
  session.room().release_for_answer(most - 1);
  if (session.engine().shape().kv.local.window == 0 || session.cache().ring().can_come_back(most)) return {};
  return OCELLUS_FAIL(Code::kFull,
                      "after a choice of %d tokens the layers with a window have lost what the next row sees: score "
                      "shorter ones, or plan longer prompts (max_prompt_rows)",
                      most);
}

}  // namespace

Status score_choices(Session& session, ocellus_choice* choices, int32_t count) {
  int32_t most = 0;
  OCELLUS_TRY(check_choices(session, choices, count, &most));
  OCELLUS_TRY(prepare(session, most));
  const TriedAnswer tried(session.conversation());
  for (int32_t i = 0; i < count; ++i) {
    ForcedAnswer answer;
    ocellus_generate_stats stats;
    OCELLUS_TRY(encode_choice(session.engine(), choices[i], &answer));
    choices[i].log_probability = 0;
    answer.total = &choices[i].log_probability;
    session.conversation().set_checkpoint();  // a call that is stopped at once returns here
    const Status status = score(session, answer, &stats);
    tried.take_back();
    OCELLUS_TRY(status);
  }
  return {};
}

}  // namespace ocellus

#include "runtime/branches/measure/score.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "runtime/cache/kept_states.h"
#include "runtime/policy/row_rule.h"
#include "runtime/session/generation.h"

namespace ocellus {

/// Values of a conversation that an answer changes, besides the cache and the recent tokens.
struct ChangedByAnswer {
  using Values = std::tuple<ConversationState, Checkpoint, KeptState, bool, bool, uint64_t, PromptStats>;
  static auto of(Conversation& c) {
    return std::tie(c.state_, c.checkpoint_, c.place_, c.has_prompt_, c.has_ncar_, c.drawn_count_, c.stats_);
  }
  static void set_checkpoint(Conversation& c) {
    c.place_ = KeptState::kScored;
    c.set_checkpoint();
  }
};

namespace {

/// To the engine's buffer.
Status append(Engine& engine, const TokenId* tokens, int64_t more, int64_t* count) {
  const HostView<TokenId>& ids = engine.memory().token_ids;
  if (*count + more > ids.cols)
    return OCELLUS_FAIL(Code::kFull, "a choice has more than the planned %lld text tokens: plan more",
                        static_cast<long long>(ids.cols));
  std::copy_n(tokens, more, ids.data + *count);
  *count += more;
  return {};
}

Status append_text(Engine& engine, const ocellus_choice& choice, int64_t* count) {
  char spaced[OCELLUS_MOST_CHOICE_BYTES + 1] = {' '};
  const auto bytes = static_cast<size_t>(choice.text_bytes);
  std::memcpy(spaced + 1, choice.text, bytes);
  const Tokenizer& tokenizer = engine.tokenizer();
  const size_t from = begins_with_space(engine.model().layout(), tokenizer.facts().kind) ? 0 : 1;
  OCELLUS_TRY(encode_text(engine, {spaced + from, bytes + 1 - from}, false, count));
  const TokenId end = engine.model().end_of_answer();
  return choice.may_go_on != 0 || end == kNoToken ? Status() : append(engine, &end, 1, count);
}

/// In the engine's buffer: an empty thought, if the model always thinks, and the choice.
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

Status score_choice(Session& session, ocellus_choice* choice) {
  if (choice->text == nullptr || choice->text_bytes < 1 || choice->text_bytes > OCELLUS_MOST_CHOICE_BYTES)
    return OCELLUS_FAIL(Code::kBadArgument, "a choice has %lld bytes, not 1 to %d",
                        static_cast<long long>(choice->text_bytes), OCELLUS_MOST_CHOICE_BYTES);
  ForcedAnswer answer;
  OCELLUS_TRY(encode_choice(session.engine(), *choice, &answer));
  OCELLUS_TRY(session.room().check_to_score(answer.count, {}));
  if (Roller* const roller = session.room().roller()) roller->release_for_answer(session.room(), answer.count - 1);
  LocalRing ring = session.cache().ring();
  ring.reserve(answer.count + 1);
  const LocalShape& local = session.engine().shape().kv.local;
  if (local.window > 0 && !local.convolves && !ring.still_has(ring.rows()))
    return OCELLUS_FAIL(
        Code::kFull,
        "a choice of %d tokens is too long for layers with a window: plan longer prompts (max_prompt_rows)",
        answer.count);
  choice->token_count = answer.count - answer.unscored;
  choice->log_probability = 0;
  answer.total = &choice->log_probability;
  ocellus_generate_stats stats;
  Conversation& conversation = session.conversation();
  TokenId* const recent = session.engine().memory().recent_tokens.row(session.index());
  TokenId recent_before[kRecentTokens];
  std::copy_n(recent, kRecentTokens, recent_before);
  Queue& queue = session.engine().queue();
  const CacheMark cache = mark_with_state(session.cache(), KeptState::kScore, queue);
  const ChangedByAnswer::Values before = ChangedByAnswer::of(conversation);
  ChangedByAnswer::set_checkpoint(conversation);  // a call that is stopped at once returns here
  const Status status = score(session, answer, &stats);
  rewind_with_state(session.cache(), cache, queue);
  ChangedByAnswer::of(conversation) = before;
  std::copy_n(recent_before, kRecentTokens, recent);
  return status;
}

}  // namespace

Status score(Session& session, const ForcedAnswer& answer, ocellus_generate_stats* stats) {
  if (answer.count < 1) return OCELLUS_FAIL(Code::kBadArgument, "%d tokens cannot be scored: give some", answer.count);
  OCELLUS_TRY(check_tokens(session.engine().text().config, answer.tokens, answer.count));
  if (!session.conversation().text().empty()) OCELLUS_TRY(session.prompt().read_to_answer());
  OCELLUS_TRY(session.room().check_to_score(answer.count, session.prompt().waiting()));
  session.conversation().state().thought = {};
  ocellus_generate_params params;
  ocellus_generate_params_init(&params);
  params.max_tokens = answer.count;
  Session* const one = &session;
  const TraceRange range(session.engine().trace(), "score");
  Generation generation(&one, &params, stats, 1, &answer);
  const Status status = generation.run();
  generation.settle(status);
  return status;
}

/// Each choice is taken back.
Status score_choices(Session& session, ocellus_choice* choices, int32_t count) {
  const CachePolicy& policy = session.engine().shape().policy;
  Conversation& conversation = session.conversation();
  if (policy.facts.answers.drops_slots || policy.packs_oldest())
    return OCELLUS_FAIL(Code::kUnsupported,
                        "choices are taken back, and %s changes the cache for good: plan another method",
                        policy.facts.answers.drops_slots ? policy.rule->method().name : "kivi");
  if (count < 1) return OCELLUS_FAIL(Code::kBadArgument, "%d choices cannot be scored: give some", count);
  if (conversation.state().unread_token != kNoToken)
    return OCELLUS_FAIL(Code::kBadArgument, "an answer has begun: choices are scored after a prompt");
  const bool was_read = session.prompt().waiting().is_none() && conversation.text().empty();
  conversation.begin_answer();
  const Status status = session.prompt().read_to_answer();
  if (!status.ok() && !was_read) session.prompt().forget();
  OCELLUS_TRY(status);
  if (!conversation.state().is_answerable)
    return OCELLUS_FAIL(Code::kBadArgument, "there is nothing to answer: add text or an image first");
  for (int32_t i = 0; i < count; ++i) OCELLUS_TRY(score_choice(session, &choices[i]));
  return {};
}

}  // namespace ocellus

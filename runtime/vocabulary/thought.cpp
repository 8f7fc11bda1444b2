#include "runtime/vocabulary/thought.h"

#include <algorithm>

#include "runtime/vocabulary/chat_template.h"

namespace ocellus {
namespace {

/// True if the template's generation prompt ends with an open thought. It also has "<think>\n\n</think>" in templates
/// that can be told not to think; those that only have that leave thinking to the model. Ministral's reasoning models
/// are told by their system prompt.
bool opens_thought(std::string_view jinja) {
  if (default_system_message(jinja).find("[THINK]") != std::string_view::npos) return true;
  const size_t prompt = jinja.rfind("add_generation_prompt");
  if (prompt == std::string_view::npos) return false;
  constexpr std::string_view kOpen[] = {"<think>\\n'", "<think>\\n\"", "<think>\n'", "<think>\n\""};
  return std::any_of(std::begin(kOpen), std::end(kOpen),
                     [&](std::string_view text) { return jinja.find(text, prompt) != std::string_view::npos; });
}

/// The words around a thought: those of templates that write an empty one without line breaks (Nemotron 3,
/// Cosmos3-Edge), Qwen's, Gemma 4's (its chat template of May 2026), and Ministral's.
struct ThoughtForm {
  std::string_view says;  // in the chat template; empty: any
  const char *begin, *end;
  const char* line;        // after `begin`
  const char* before_end;  // written by the runtime where it ends a thought
  const char* after_end;
  const char* empty;  // between the marks of no thought
  bool has_title;     // `line` is a word that the model writes, too
};
constexpr ThoughtForm kForms[] = {{"<think></think>", "<think>", "</think>", "\n", "\n", "", "", false},
                                  {"", "<think>", "</think>", "\n", "\n", "\n\n", "\n\n", false},
                                  {"", "<|channel>", "<channel|>", "thought\n", "", "", "thought\n", true},
                                  {"", "[THINK]", "[/THINK]", "", "", "", "", false}};

}  // namespace

/// Appends the tokens of words that follow a token directly: a SentencePiece vocabulary adds no space.
Status ThoughtMarks::append(const Tokenizer& tokenizer, std::string_view text, Tokens* out) {
  std::byte workspace[4096];
  int64_t count = 0;
  if (Tokenizer::workspace_bytes(static_cast<int64_t>(text.size())) > static_cast<int64_t>(sizeof workspace))
    return OCELLUS_FAIL(Code::kInternal, "the workspace for the words around a thought is too small");
  OCELLUS_TRY(tokenizer.encode(text, false, workspace, sizeof workspace, out->ids + out->count,
                               kMaxScriptTokens - out->count, &count, /*continues=*/true));
  out->count += static_cast<int32_t>(count);
  return {};
}

Status ThoughtMarks::read(std::string_view jinja, const Tokenizer& tokenizer) {
  *this = {};
  const ThoughtForm* const form = std::find_if(std::begin(kForms), std::end(kForms), [&](const ThoughtForm& one) {
    return jinja.find(one.says) != jinja.npos && tokenizer.find(one.begin) != kNoToken &&
           tokenizer.find(one.end) != kNoToken;
  });
  if (form == std::end(kForms)) return {};
  begin_ = tokenizer.find(form->begin);
  end_ = tokenizer.find(form->end);
  has_title_ = form->has_title;
  thinking_ = opens_thought(jinja) ? Thinking::kAlways : Thinking::kIfTold;
  const auto at = [&](ThoughtScript script) { return &scripts_[static_cast<int>(script)]; };
  *at(ThoughtScript::kOpen) = {{begin_}, 1};
  OCELLUS_TRY(append(tokenizer, form->line, at(ThoughtScript::kLine)));
  OCELLUS_TRY(append(tokenizer, form->before_end, at(ThoughtScript::kClose)));
  OCELLUS_TRY(append(tokenizer, form->empty, at(ThoughtScript::kCloseAtOnce)));
  for (Tokens* script : {at(ThoughtScript::kClose), at(ThoughtScript::kCloseAtOnce)}) {
    script->ids[script->count++] = end_;
    OCELLUS_TRY(append(tokenizer, form->after_end, script));
  }
  return {};
}

int32_t ThoughtMarks::mark_tokens() const {
  if (thinking_ == Thinking::kNever) return 0;
  const int32_t bounded = tokens_of(ThoughtScript::kLine).count + tokens_of(ThoughtScript::kClose).count;
  return 1 + std::max(bounded, tokens_of(ThoughtScript::kCloseAtOnce).count);
}

ThoughtState ThoughtMarks::begin() const {
  ThoughtState state;
  if (thinking_ == Thinking::kNever) return state;
  state.phase = AnswerPhase::kStart;
  if (thinking_ == Thinking::kAlways) run(ThoughtScript::kOpen, &state);
  return state;
}

/// A vocabulary without line breaks has an empty kLine, which is over at once.
void ThoughtMarks::run(ThoughtScript script, ThoughtState* state) const {
  state->script = tokens_of(script).count > 0 ? script : ThoughtScript::kNone;
  state->written = 0;
}

TokenId ThoughtMarks::next(const ThoughtState& state) const {
  return state.script == ThoughtScript::kNone ? kNoToken : tokens_of(state.script).ids[state.written];
}

bool ThoughtMarks::may_write_after_next(const ThoughtState& state, int32_t most) const {
  if (state.phase == AnswerPhase::kStart || state.script != ThoughtScript::kNone) return true;
  return state.phase == AnswerPhase::kThought && state.count + 1 >= most;
}

ThoughtPart ThoughtMarks::accept(TokenId token, int32_t most, ThoughtState* state) const {
  if (state->phase == AnswerPhase::kAnswer || state->phase == AnswerPhase::kClosed) return ThoughtPart::kAnswer;
  if (state->phase == AnswerPhase::kStart) {
    const ThoughtScript script = state->script;
    *state = {.most = state->most};
    if (token != begin_) return ThoughtPart::kAnswer;
    state->phase = AnswerPhase::kThought;
    if (most <= 0)
      run(ThoughtScript::kCloseAtOnce, state);
    else if (script == ThoughtScript::kOpen || has_title_)
      run(ThoughtScript::kLine, state);
    return ThoughtPart::kMark;
  }
  if (state->script != ThoughtScript::kNone) {
    if (++state->written < tokens_of(state->script).count) return ThoughtPart::kMark;
    if (state->script == ThoughtScript::kLine)
      state->script = ThoughtScript::kNone;
    else
      *state = {.phase = AnswerPhase::kClosed, .count = state->count};
    return ThoughtPart::kMark;
  }
  if (token == end_) {
    state->phase = AnswerPhase::kClosed;
    return ThoughtPart::kMark;
  }
  if (++state->count >= most) run(ThoughtScript::kClose, state);
  return ThoughtPart::kThought;
}

int64_t ThoughtMarks::most_left(const ThoughtState& state, int32_t most) const {
  if (state.phase == AnswerPhase::kStart) return int64_t{mark_tokens()} + std::max(most, 0);
  if (state.phase != AnswerPhase::kThought) return 0;
  const int64_t script = state.script == ThoughtScript::kNone ? 0 : tokens_of(state.script).count - state.written;
  if (script > 0 && state.script != ThoughtScript::kLine) return script;
  return script + std::max<int64_t>(int64_t{most} - state.count, 1) + tokens_of(ThoughtScript::kClose).count;
}

std::string_view visible_text(std::string_view text, ThoughtState* state) {
  if (state->phase != AnswerPhase::kClosed) return text;
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  if (!text.empty()) state->phase = AnswerPhase::kAnswer;
  return text;
}

}  // namespace ocellus

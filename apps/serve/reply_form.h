// The JSON of answers: chat completions, and completions of a prompt.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/base/choices.h"
#include "apps/serve/token_logprobs.h"
#include "apps/serve/tools.h"

namespace ocellus::app {

enum class ReplyForm { kChat, kCompletion, kResponse };  // the last one: see response_events.h

// One answer of a request.
struct ReplyChoice {
  std::string text, thought;
  std::vector<ToolCall> calls;
  std::vector<TokenLogprob> tokens;  // if they were asked for
  int64_t offset = 0;                // place of the first token in the text
  std::vector<Choice> scores;        // given answers
  const char* reason = nullptr;      // "stop", "length" or "tool_calls"
};

// A piece of a stream. Each is a text, calls or the end.
struct ReplyPiece {
  const char* field = nullptr;  // "content" or "reasoning_content"; nullptr: there is no text
  std::string text = {};
  std::vector<ToolCall> calls = {};
  const char* reason = nullptr;  // nullptr before the end
};

// Returns 24 hexadecimal digits, unique in this process and most likely between processes.
std::string make_identifier();
// "chatcmpl-" or "cmpl-"
const char* id_prefix(ReplyForm form);
// The `object` of an answer or, in a stream, of a piece of it.
const char* object_name(ReplyForm form, bool is_piece);
// A whole answer as an entry of `choices`. `has_logprobs`: they were asked for.
nlohmann::ordered_json choice_json(ReplyForm form, int32_t index, const ReplyChoice& choice, bool has_logprobs);
// A piece of a stream as such an entry, without log-probabilities.
nlohmann::ordered_json piece_json(ReplyForm form, int32_t index, const ReplyPiece& piece);
// Log-probabilities as such an entry has them.
nlohmann::ordered_json logprobs_json(ReplyForm form, const std::vector<TokenLogprob>& tokens, int64_t* offset);

}  // namespace ocellus::app

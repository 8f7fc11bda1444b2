// The JSON of answers: chat completions, and completions of a prompt.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace ocellus::app {

enum class ReplyForm { kChat, kCompletion };

// One answer of a request.
struct ReplyChoice {
  std::string text, thought;
  const char* reason = nullptr;  // "stop" or "length"
};

// "chatcmpl-" or "cmpl-"
const char* id_prefix(ReplyForm form);
// The `object` of an answer or, in a stream, of a piece of it.
const char* object_name(ReplyForm form, bool is_piece);
// A whole answer as an entry of `choices`.
nlohmann::ordered_json choice_json(ReplyForm form, int32_t index, const ReplyChoice& choice);
// A piece of a stream as such an entry. `field`: "content" or "reasoning_content"; nullptr: there is no text. `reason`:
// nullptr before the end.
nlohmann::ordered_json piece_json(ReplyForm form, int32_t index, const char* field, const std::string& text,
                                  const char* reason);

}  // namespace ocellus::app

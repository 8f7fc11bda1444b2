// Chat templates: the form of a conversation's turns, told by marks; the Jinja program in a model file is not run.
#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/vocabulary/tokenizer.h"

namespace ocellus {

enum class ChatTemplate : uint8_t {
  kRaw,
  kSmolVlm,
  kIdefics3,
  kChatMl,
  kVicuna,
  kLlama2,
  kMistral,
  kLlama3,
  kGemma,
  kGemma4,
  kGemma4Quiet,
  kPaddleOcr
};
/// kIdefics3 is SmolVLM's after another beginning. kMistral has the marks of kLlama2 as single tokens, without spaces.
/// kGemma4Quiet opens an answer with a thought that is empty, as the larger models' templates do.
const char* chat_template_name(ChatTemplate chat_template);

/// Detects the template by the text of the file (tokenizer.chat_template, may be empty) if it is recognised, else by
/// the special tokens of the vocabulary; kRaw if neither is known.
ChatTemplate detect_chat_template(std::string_view jinja, const Tokenizer& tokenizer);

/// Returns the system prompt that a template writes where a conversation has none; empty if it writes none. In ChatML,
/// as Qwen2-VL's, it stands between marks. Ministral's is a string of the program, in which characters may be escaped.
std::string_view default_system_prompt(std::string_view jinja);
std::string_view default_system_message(std::string_view jinja);

/// The form in which a template lists tools and has them called: ocellus_tool_calls.
enum class ToolCalls : uint8_t { kNone, kJson, kGemma4 };
ToolCalls find_tool_calls(std::string_view jinja);

}  // namespace ocellus

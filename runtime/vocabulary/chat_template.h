// Chat templates: the fixed texts around a conversation's turns, chosen by detection; the Jinja program in a model file
// is not run.
#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/vocabulary/tokenizer.h"

namespace ocellus {

enum class ChatTemplate : uint8_t { kRaw, kSmolVlm, kChatMl, kVicuna, kLlama2, kLlama3, kGemma, kGemma4, kGemma4Quiet };
/// kGemma4Quiet opens an answer with a thought that is empty, as the larger models' templates do.
const char* chat_template_name(ChatTemplate chat_template);

/// Detects the template by the text of the file (tokenizer.chat_template, may be empty) if it is recognised, else by
/// the special tokens of the vocabulary; kRaw if neither is known.
ChatTemplate detect_chat_template(std::string_view jinja, const Tokenizer& tokenizer);

/// Returns the system prompt that a ChatML template writes where a conversation has none, as Qwen2-VL's does; empty if
/// it writes none.
std::string_view default_system_prompt(std::string_view jinja);

/// The form in which a template lists tools and has them called: ocellus_tool_calls.
enum class ToolCalls : uint8_t { kNone, kJson, kGemma4 };
ToolCalls find_tool_calls(std::string_view jinja);

/// A conversation is
///   [system_open system system_close user_after_system | user_first] content user_close answer answer_end
///   then for each later turn
///   user_later content user_close answer answer_end.
/// Each of these texts is encoded on its own with parse_special = true; contents and system prompts are encoded on
/// their own without it. system_close, user_after_system, user_close and answer_end continue the text before them
/// (encode's `continues`). The model itself writes answer_end when it stops by its own will. The beginning-of-text
/// token is not part of the texts: VocabularyFacts::add_bos says whether it comes first.
/// Vicuna and Llama2 have SentencePiece vocabularies, whose space prefix is the space before a content.
struct TurnText {
  const char* system_open = "";
  const char* system_close = "";
  const char* user_after_system = "";
  const char* user_first = "";
  const char* user_later = "";
  const char* user_close = "";  // includes the suffix
  const char* suffix = "";      // end of user_close: the text after which the model answers
  const char* answer_end = "";
};
const TurnText& turn_text(ChatTemplate chat_template);

/// True if an answer begins with a space, as the template's suffix ends without white space ("Assistant:").
/// SentencePiece vocabularies put it there themselves.
bool begins_with_space(const TurnText& texts, VocabularyKind kind);

}  // namespace ocellus

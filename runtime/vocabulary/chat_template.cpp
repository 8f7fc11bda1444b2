#include "runtime/vocabulary/chat_template.h"

namespace ocellus {
const char* chat_template_name(ChatTemplate chat_template) {
  switch (chat_template) {
    case ChatTemplate::kRaw: return "raw";
    case ChatTemplate::kSmolVlm: return "smolvlm";
    case ChatTemplate::kIdefics3: return "idefics3";
    case ChatTemplate::kChatMl: return "chatml";
    case ChatTemplate::kVicuna: return "vicuna";
    case ChatTemplate::kLlama2: return "llama2";
    case ChatTemplate::kMistral: return "mistral";
    case ChatTemplate::kLlama3: return "llama3";
    case ChatTemplate::kGemma: return "gemma";
    case ChatTemplate::kGemma4:
    case ChatTemplate::kGemma4Quiet: return "gemma4";
    case ChatTemplate::kPaddleOcr: return "paddleocr";
  }
  return "unknown";
}

ChatTemplate detect_chat_template(std::string_view jinja, const Tokenizer& tokenizer) {
  const auto says = [&](std::string_view text) { return jinja.find(text) != std::string_view::npos; };
  const auto knows = [&](std::string_view token) { return tokenizer.find(token) != kNoToken; };
  if (says("<|im_start|>")) return says("<end_of_utterance>") ? ChatTemplate::kSmolVlm : ChatTemplate::kChatMl;
  if (says("<end_of_utterance>")) return ChatTemplate::kIdefics3;
  if (says("<|start_header_id|>")) return ChatTemplate::kLlama3;
  if (says("<start_of_turn>")) return ChatTemplate::kGemma;
  if (says("<|turn>"))
    return says("<|channel>thought\\n<channel|>") ? ChatTemplate::kGemma4Quiet : ChatTemplate::kGemma4;
  if (says("<|IMAGE_START|>")) return ChatTemplate::kPaddleOcr;
  const bool has_roles = tokenizer.facts().kind == VocabularyKind::kBytePair && knows("[INST]") && knows("[/INST]");
  if (says("[INST]")) return has_roles ? ChatTemplate::kMistral : ChatTemplate::kLlama2;
  if (says("ASSISTANT:") && (says("USER:") || says("upper()"))) return ChatTemplate::kVicuna;  // role.upper() + ": "
  if (knows("<|im_start|>")) return knows("<end_of_utterance>") ? ChatTemplate::kSmolVlm : ChatTemplate::kChatMl;
  if (knows("<end_of_utterance>")) return ChatTemplate::kIdefics3;
  if (knows("<|start_header_id|>")) return ChatTemplate::kLlama3;
  if (knows("<start_of_turn>")) return ChatTemplate::kGemma;
  if (knows("<|turn>")) return ChatTemplate::kGemma4;
  if (knows("<|IMAGE_START|>")) return ChatTemplate::kPaddleOcr;
  if (has_roles) return ChatTemplate::kMistral;
  // LLaVA files have no template, and their SentencePiece vocabularies have no turn tokens.
  const bool like_llava = jinja.empty() && tokenizer.facts().kind == VocabularyKind::kSentencePiece;
  return like_llava ? ChatTemplate::kVicuna : ChatTemplate::kRaw;
}

/// The prompt stands between two marks, without Jinja's quotes or braces, and without escaped characters: elsewhere a
/// message stands there. The line break after the first mark may be escaped.
std::string_view default_system_prompt(std::string_view jinja) {
  constexpr std::string_view kOpen = "<|im_start|>system", kClose = "<|im_end|>";
  for (size_t at = jinja.find(kOpen); at != jinja.npos; at = jinja.find(kOpen, at + 1)) {
    std::string_view rest = jinja;
    rest.remove_prefix(at + kOpen.size());
    const size_t line_break = rest.starts_with("\n") ? 1 : rest.starts_with("\\n") ? 2 : 0;
    rest.remove_prefix(line_break);
    const std::string_view prompt = rest.substr(0, rest.find(kClose));
    if (line_break > 0 && prompt.size() < rest.size() && prompt.find_first_of("'\"{}\\") == prompt.npos) return prompt;
  }
  return {};
}

/// One that is put together, of today's date, is none.
std::string_view default_system_message(std::string_view jinja) {
  constexpr std::string_view kName = "set default_system_message = ";
  const size_t at = jinja.find(kName);
  if (at == jinja.npos || at + kName.size() == jinja.size()) return {};
  jinja.remove_prefix(at + kName.size());
  const char quote = jinja[0];
  if (quote != '\'' && quote != '"') return {};
  size_t end = 1;
  while (end < jinja.size() && jinja[end] != quote) end += jinja[end] == '\\' ? 2 : 1;
  if (end >= jinja.size()) return {};
  const size_t next = jinja.find_first_not_of(" ", end + 1);
  return next != jinja.npos && (jinja[next] == '%' || jinja[next] == '-') ? jinja.substr(1, end - 1)
                                                                          : std::string_view();
}

ToolCalls find_tool_calls(std::string_view jinja) {
  const auto says = [&](std::string_view text) { return jinja.find(text) != jinja.npos; };
  const bool is_xml = says("<function=");  // a form that is not written here
  if (says("<tools>") && says("<tool_call>") && !is_xml) return ToolCalls::kJson;
  return says("<|tool>") && says("<|tool_call>call:") ? ToolCalls::kGemma4 : ToolCalls::kNone;
}

}  // namespace ocellus

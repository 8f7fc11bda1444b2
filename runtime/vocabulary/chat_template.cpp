#include "runtime/vocabulary/chat_template.h"

namespace ocellus {
namespace {

constexpr TurnText kTurnTexts[] = {
    /* kRaw */ {},
    /* kSmolVlm */
    {"<|im_start|>", "\n\n",
     "User: ", "<|im_start|>User: ", "\nUser: ", "<end_of_utterance>\nAssistant:", "Assistant:", "<end_of_utterance>"},
    /* kChatMl */
    {"<|im_start|>system\n", "<|im_end|>\n", "<|im_start|>user\n", "<|im_start|>user\n", "\n<|im_start|>user\n",
     "<|im_end|>\n<|im_start|>assistant\n", "<|im_start|>assistant\n", "<|im_end|>"},
    /* kVicuna */
    {"", "", " USER:", "USER:", "USER:", " ASSISTANT:", "ASSISTANT:", "</s>"},
    /* kLlama2 */
    {"[INST] <<SYS>>\n", "\n<</SYS>>\n\n", "", "[INST]", "<s>[INST]", " [/INST]", "[/INST]", "</s>"},
    /* kLlama3 */
    {"<|start_header_id|>system<|end_header_id|>\n\n", "<|eot_id|>", "<|start_header_id|>user<|end_header_id|>\n\n",
     "<|start_header_id|>user<|end_header_id|>\n\n", "<|start_header_id|>user<|end_header_id|>\n\n",
     "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n", "<|start_header_id|>assistant<|end_header_id|>\n\n",
     "<|eot_id|>"},
    /* kGemma */
    {"<start_of_turn>user\n", "\n\n", "", "<start_of_turn>user\n", "\n<start_of_turn>user\n",
     "<end_of_turn>\n<start_of_turn>model\n", "<start_of_turn>model\n", "<end_of_turn>"},
};

}  // namespace

const char* chat_template_name(ChatTemplate chat_template) {
  switch (chat_template) {
    case ChatTemplate::kRaw: return "raw";
    case ChatTemplate::kSmolVlm: return "smolvlm";
    case ChatTemplate::kChatMl: return "chatml";
    case ChatTemplate::kVicuna: return "vicuna";
    case ChatTemplate::kLlama2: return "llama2";
    case ChatTemplate::kLlama3: return "llama3";
    case ChatTemplate::kGemma: return "gemma";
  }
  return "unknown";
}

ChatTemplate detect_chat_template(std::string_view jinja, const Tokenizer& tokenizer) {
  const auto says = [&](std::string_view text) { return jinja.find(text) != std::string_view::npos; };
  const auto knows = [&](std::string_view token) { return tokenizer.find(token) != kNoToken; };
  if (says("<|im_start|>")) return says("<end_of_utterance>") ? ChatTemplate::kSmolVlm : ChatTemplate::kChatMl;
  if (says("<|start_header_id|>")) return ChatTemplate::kLlama3;
  if (says("<start_of_turn>")) return ChatTemplate::kGemma;
  if (says("[INST]")) return ChatTemplate::kLlama2;
  if (says("ASSISTANT:") && (says("USER:") || says("upper()"))) return ChatTemplate::kVicuna;  // role.upper() + ": "
  if (knows("<|im_start|>")) return knows("<end_of_utterance>") ? ChatTemplate::kSmolVlm : ChatTemplate::kChatMl;
  if (knows("<|start_header_id|>")) return ChatTemplate::kLlama3;
  if (knows("<start_of_turn>")) return ChatTemplate::kGemma;
  // LLaVA files have no template, and their SentencePiece vocabularies have no turn tokens.
  const bool like_llava = jinja.empty() && tokenizer.facts().kind == VocabularyKind::kSentencePiece;
  return like_llava ? ChatTemplate::kVicuna : ChatTemplate::kRaw;
}

const TurnText& turn_text(ChatTemplate chat_template) { return kTurnTexts[static_cast<int>(chat_template)]; }

}  // namespace ocellus

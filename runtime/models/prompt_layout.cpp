#include "runtime/models/prompt_layout.h"

namespace ocellus {
namespace {

/// A row of the table: for models of this family whose template has this form and all marks of `says` and none of
/// `lacks`. Empty: any.
struct LayoutRow {
  std::string_view family;
  ChatTemplate form;
  std::string_view says, lacks;
  PromptLayout layout;
};

constexpr PromptLayout chat_ml(PromptLayout more = {}) {
  more.system = {"<|im_start|>system\n", "<|im_end|>\n"};
  more.user = {"<|im_start|>user\n", "<|im_end|>\n"};
  more.answer = {"<|im_start|>assistant\n", "<|im_end|>\n"};
  more.opens_answer = "<|im_start|>assistant\n";
  return more;
}

constexpr PromptLayout smolvlm(const char* start) {
  return {.start = start,
          .system = {"System:", "<end_of_utterance>\n", " "},
          .user = {"User:", "<end_of_utterance>\n", " "},
          .answer = {"Assistant:", "<end_of_utterance>\n", " "},
          .opens_answer = "Assistant:"};
}

/// Vicuna's turns as LLaVA's own code writes them.
constexpr PromptLayout vicuna(const char* system_text) {
  return {.system = {"", " "},
          .user = {"USER: ", " "},
          .answer = {"ASSISTANT: ", "</s>"},
          .opens_answer = "ASSISTANT:",
          .picture = {"", "\n"},
          .system_text = system_text,
          .pictures_first = true};
}

/// Files of Gemma 4's launch, and later ones.
constexpr PromptLayout gemma4(bool is_launch, bool is_quiet) {
  const char* const line_breaks = is_launch ? "\n\n" : "";
  return {.system = {"<|turn>system\n", "<turn|>\n"},
          .user = {"<|turn>user\n", "<turn|>\n"},
          .answer = {"<|turn>model\n", "<turn|>\n"},
          .opens_answer = is_quiet ? "<|turn>model\n<|channel>thought\n<channel|>" : "<|turn>model\n",
          .picture = {line_breaks, line_breaks},
          .opens_thinking = is_launch ? "<|think|>" : "<|think|>\n",
          .opens_thought = "<|turn>model\n",
          .joins_answers = !is_launch,
          .trims = kTrimsSystem | kTrimsUser | kTrimsAnswer};
}

constexpr const char* kAssistant = "You are a helpful assistant.";
/// System texts that the models were trained with: OpenGVLab/InternVL, conv "internvl2_5", and haotian-liu/LLaVA, conv
/// "vicuna_v1".
constexpr const char* kInternVl =
    "你是书生·万象，英文名是InternVL，是由上海人工智能实验室、清华大学及多家合作单位联合开发的多模态大语言模型。";
constexpr const char* kVicuna =
    "A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, detailed, "
    "and polite answers to the user's questions.";

constexpr const char* kQwenNumber = "Picture %d: ";
constexpr PromptLayout qwen(const char* system_text, bool refuses_later_system) {
  return chat_ml({.picture_number = kQwenNumber,
                  .after_numbered = "",
                  .system_text = system_text,
                  .refuses_later_system = refuses_later_system});
}

/// Answers that were given have no thought, which templates of thinking models write as an empty one.
constexpr PromptLayout cosmos3_edge(bool has_thoughts) {
  PromptLayout layout = chat_ml({.after_numbered = "", .begins_with_system = true, .trims = kTrimsAnswer});
  if (has_thoughts) layout.answer.before = "<|im_start|>assistant\n<think></think>";
  return layout;
}

/// Trained with an empty system message, which has no line break after its role, and a page without a question.
constexpr PromptLayout kLightOnOcr = chat_ml({.start = "<|im_start|>system<|im_end|>\n", .after_numbered = ""});

/// `answer`: a space after the role in files of the first version, a line break in later ones.
constexpr PromptLayout paddleocr(const char* answer) {
  return {.start = "<|begin_of_sentence|>",
          .system = {"", "\n"},
          .user = {"User: ", "\n"},
          .answer = {answer, "</s>"},
          .opens_answer = answer,
          .after_numbered = "",
          .pictures_first = true};
}

/// InternVL and LLaVA have two published forms with the same pictures: the one that they were trained with, of the
/// makers' code, and that of the files for transformers, which are told by the picture in their template.
constexpr PromptLayout kTrainedInternVl = chat_ml({.picture = {"", "\n"},
                                                   .picture_number = "Image-%d: ",
                                                   .after_numbered = "",
                                                   .system_text = kInternVl,
                                                   .numbers_several = true,
                                                   .trims = kTrimsAnswer});
constexpr PromptLayout kPublishedInternVl =
    chat_ml({.picture = {"", "\n"}, .picture_number = "Image-%d: ", .after_numbered = ""});
constexpr PromptLayout kPublishedVicuna = {.user = {"USER: "},
                                           .answer = {"ASSISTANT: "},
                                           .opens_answer = "ASSISTANT:",
                                           .after_text = " ",
                                           .picture = {"", "\n"},
                                           .after_numbered = "",
                                           .pictures_first = true};
constexpr PromptLayout kPublishedMistral = {.system = {"<<SYS>>\n", "\n<</SYS>>\n\n"},
                                            .user = {"[INST] ", " [/INST]"},
                                            .answer = {" ", "</s>"},  // the space after it is SentencePiece's own
                                            .picture = {"", "\n"},
                                            .after_numbered = "",
                                            .pictures_first = true};
constexpr PromptLayout kTrainedMistral = {.system = {"[INST] <<SYS>>\n", "\n<</SYS>>\n\n"},
                                          .user = {"[INST] ", " [/INST]"},
                                          .answer = {" ", " </s>"},
                                          .picture = {"", "\n"},
                                          .after_numbered = "",
                                          .joins_system = true,
                                          .refuses_later_system = true,
                                          .pictures_first = true};
constexpr PromptLayout kLlama2 = {.system = {"[INST] <<SYS>>\n", "\n<</SYS>>\n\n"},
                                  .user = {"[INST] ", " [/INST]"},
                                  .answer = {" ", " </s><s>"},
                                  .joins_system = true,
                                  .refuses_later_system = true};
/// Marks are tokens, and stand without spaces. Models with no token for a system message have it in front of a user's:
/// transformers in front of the last one's, here of the one after it, which stays where it is.
constexpr PromptLayout mistral(MessageText system, bool joins_system) {
  return {.system = system,
          .user = {"[INST]", "[/INST]"},
          .answer = {"", "</s>"},
          .after_numbered = "",
          .joins_system = joins_system,
          .refuses_later_system = true,
          .alternates = true};
}
constexpr PromptLayout kLlama3 = {.system = {"<|start_header_id|>system<|end_header_id|>\n\n", "<|eot_id|>"},
                                  .user = {"<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|>"},
                                  .answer = {"<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>"},
                                  .opens_answer = "<|start_header_id|>assistant<|end_header_id|>\n\n"};
constexpr PromptLayout kGemma3 = {.system = {"<start_of_turn>user\n", "\n\n"},
                                  .user = {"<start_of_turn>user\n", "<end_of_turn>\n"},
                                  .answer = {"<start_of_turn>model\n", "<end_of_turn>\n"},
                                  .opens_answer = "<start_of_turn>model\n",
                                  .joins_system = true,
                                  .refuses_later_system = true,
                                  .alternates = true,
                                  .trims = kTrimsUser | kTrimsAnswer};
constexpr PromptLayout kPlain = {.start = "<|im_start|>",
                                 .system = {"", "\n\n"},
                                 .user = {"User: ", "<end_of_utterance>\n"},
                                 .answer = {"Assistant:", "<end_of_utterance>\n", " "},
                                 .later_system = {"System: ", "<end_of_utterance>\n"},
                                 .opens_answer = "Assistant:",
                                 .picture_number = "Image %d:",
                                 .is_plain = true};

/// The first row that fits is a model's. Sources: the chat templates of the published files, and for trained forms the
/// code of the models' makers; tools/convert/make_prompt_goldens.py names them all.
constexpr LayoutRow kRows[] = {
    {"", ChatTemplate::kRaw, "", "", {}},
    {"", ChatTemplate::kSmolVlm, "<end_of_utterance>", "image", kPlain},
    {"", ChatTemplate::kSmolVlm, "", "", smolvlm("<|im_start|>")},
    {"", ChatTemplate::kIdefics3, "", "", smolvlm("")},
    {"InternVL", ChatTemplate::kChatMl, "'<IMG_CONTEXT>", "", kPublishedInternVl},
    {"InternVL", ChatTemplate::kChatMl, "'<image>", "", kPublishedInternVl},  // early conversions
    {"InternVL", ChatTemplate::kChatMl, "", "", kTrainedInternVl},
    {"Qwen2-VL", ChatTemplate::kChatMl, "", "", qwen(kAssistant, false)},
    {"Qwen2.5-VL", ChatTemplate::kChatMl, "", "", qwen(kAssistant, false)},
    {"Qwen3-VL", ChatTemplate::kChatMl, "", "", qwen("", true)},
    {"Cosmos3-Edge", ChatTemplate::kChatMl, "<think></think>", "", cosmos3_edge(true)},
    {"Cosmos3-Edge", ChatTemplate::kChatMl, "", "", cosmos3_edge(false)},
    {"LFM2-VL", ChatTemplate::kChatMl, "", "", chat_ml({.after_numbered = ""})},
    {"LightOnOCR", ChatTemplate::kChatMl, "", "", kLightOnOcr},
    {"", ChatTemplate::kChatMl, "", "", chat_ml()},
    {"LLaVA-1.5", ChatTemplate::kVicuna, "<image>", "", kPublishedVicuna},
    {"LLaVA-1.6", ChatTemplate::kVicuna, "<image>", "", kPublishedVicuna},
    {"LLaVA-1.5", ChatTemplate::kVicuna, "", "", vicuna(kVicuna)},
    {"LLaVA-1.6", ChatTemplate::kVicuna, "", "", vicuna(kVicuna)},
    {"", ChatTemplate::kVicuna, "", "", vicuna("")},
    {"LLaVA-1.6", ChatTemplate::kLlama2, "<image>", "", kPublishedMistral},
    {"LLaVA-1.6", ChatTemplate::kLlama2, "", "", kTrainedMistral},
    {"", ChatTemplate::kLlama2, "", "", kLlama2},
    {"", ChatTemplate::kMistral, "[SYSTEM_PROMPT]", "", mistral({"[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"}, false)},
    {"", ChatTemplate::kMistral, "", "", mistral({"[INST]", "\n\n"}, true)},
    {"", ChatTemplate::kLlama3, "", "", kLlama3},
    {"", ChatTemplate::kGemma, "", "", kGemma3},
    {"", ChatTemplate::kGemma4, "\\n\\n<|image|>\\n\\n", "", gemma4(true, false)},
    {"", ChatTemplate::kGemma4, "", "", gemma4(false, false)},
    {"", ChatTemplate::kGemma4Quiet, "\\n\\n<|image|>\\n\\n", "", gemma4(true, true)},
    {"", ChatTemplate::kGemma4Quiet, "", "", gemma4(false, true)},
    {"", ChatTemplate::kPaddleOcr, "Assistant:\\n", "", paddleocr("Assistant:\n")},
    {"", ChatTemplate::kPaddleOcr, "", "", paddleocr("Assistant: ")},
};

}  // namespace

const PromptLayout& find_layout(std::string_view family, ChatTemplate form, std::string_view jinja) {
  for (const LayoutRow& row : kRows) {
    const bool fits = row.form == form && (row.family.empty() || row.family == family);
    const bool lacks = row.lacks.empty() || jinja.find(row.lacks) == jinja.npos;
    if (fits && lacks && jinja.find(row.says) != jinja.npos) return row.layout;
  }
  return kRows[0].layout;
}

bool answers_with_space(const PromptLayout& layout) {
  const std::string_view before = layout.end_of_question();
  return !before.empty() && before != "[/INST]" && before.back() != '\n' && before.back() != ' ' &&
         before.back() != '>';
}

bool begins_with_space(const PromptLayout& layout, VocabularyKind kind) {
  return kind == VocabularyKind::kBytePair && answers_with_space(layout);
}

}  // namespace ocellus

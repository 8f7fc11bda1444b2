#include "runtime/vocabulary/chat_template.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/support/gguf_builder.h"
#include "tests/support/tokenizer_loader.h"

namespace ocellus {
namespace {

/// A vocabulary of letters and the given control tokens.
void make_vocabulary(std::vector<std::string> controls, bool sentence_piece, test::LoadedTokenizer* out) {
  std::vector<std::string> tokens = {"a", "b", "ab"};
  std::vector<int32_t> kinds = {1, 1, 1};
  for (const std::string& text : controls) {
    tokens.push_back(text);
    kinds.push_back(3);
  }
  test::GgufBuilder builder;
  builder.add_string("tokenizer.ggml.model", sentence_piece ? "llama" : "gpt2");
  builder.add_string("tokenizer.ggml.pre", "gpt-2");
  builder.add_string_array("tokenizer.ggml.tokens", tokens);
  builder.add_i32_array("tokenizer.ggml.token_type", kinds);
  builder.add_string_array("tokenizer.ggml.merges", {"a b"});
  builder.add_f32_array("tokenizer.ggml.scores", std::vector<float>(tokens.size(), 0.0f));
  test::ExactBytes bytes(builder.build());
  const Status status = out->parse(bytes.data(), bytes.size());
  REQUIRE_MESSAGE(status.ok(), last_failure().sentence);
}

ChatTemplate detect(std::string_view jinja, std::vector<std::string> controls = {}, bool sentence_piece = false) {
  test::LoadedTokenizer loaded;
  make_vocabulary(std::move(controls), sentence_piece, &loaded);
  return detect_chat_template(jinja, loaded.tokenizer);
}

TEST_CASE("templates are recognised by their text") {
  CHECK(detect("<|im_start|>{% for m in messages %}{{m.content}}<end_of_utterance>\n{% endfor %}") ==
        ChatTemplate::kSmolVlm);
  CHECK(detect("{% for m in messages %}{{m.content}}<end_of_utterance>\n{% endfor %}") == ChatTemplate::kIdefics3);
  CHECK(detect("{{'<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>'}}") == ChatTemplate::kChatMl);
  CHECK(detect("{{ '<|start_header_id|>' + role + '<|end_header_id|>' }}") == ChatTemplate::kLlama3);
  CHECK(detect("{{ '<start_of_turn>' + role }}") == ChatTemplate::kGemma);
  CHECK(detect("{{ bos_token + '[INST] ' + content + ' [/INST]' }}") == ChatTemplate::kLlama2);
  CHECK(detect("USER: {{ content }} ASSISTANT:") == ChatTemplate::kVicuna);
  CHECK(detect("{% for m in messages %}{{ m['role'].upper() + ': ' + m['content'] + ' ' }}{% endfor %}"
               "{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}") == ChatTemplate::kVicuna);
}

TEST_CASE("PaddleOCR-VL's is told by the mark of a picture, or by its token") {
  CHECK(detect("{{ 'User: <|IMAGE_START|><|IMAGE_PLACEHOLDER|><|IMAGE_END|>' }}") == ChatTemplate::kPaddleOcr);
  CHECK(detect("", {"<|IMAGE_START|>"}, true) == ChatTemplate::kPaddleOcr);
}

TEST_CASE("role marks of Mistral are tokens of byte-level vocabularies") {
  const char* const jinja = "{{ '[INST]' + content + '[/INST]' }}";
  CHECK(detect(jinja, {"[INST]", "[/INST]"}) == ChatTemplate::kMistral);
  CHECK(detect("", {"[INST]", "[/INST]"}) == ChatTemplate::kMistral);
  CHECK(detect(jinja, {"[INST]", "[/INST]"}, true) == ChatTemplate::kLlama2);
  CHECK(detect(jinja) == ChatTemplate::kLlama2);
  CHECK(detect("", {"[INST]"}) == ChatTemplate::kRaw);
}

TEST_CASE("a system message that a program sets is read if it is one string") {
  const std::string set = "{%- set default_system_message = ";
  CHECK(default_system_message(set + "'Be \\'kind\\'.\\n' %}") == "Be \\'kind\\'.\\n");
  CHECK(default_system_message(set + "\"It's '\" -%}") == "It's '");
  CHECK(default_system_message(set + "'' %}").empty());
  for (const std::string& none : {set + "\"Today is \" + today + \".\" %}", set + "'open", set + "'open\\", set,
                                  set + "text %}", std::string("default_system_message"), std::string()})
    CHECK(default_system_message(none).empty());
}

TEST_CASE("without a recognised text the vocabulary decides") {
  CHECK(detect("", {"<|im_start|>", "<|im_end|>", "<end_of_utterance>"}) == ChatTemplate::kSmolVlm);
  CHECK(detect("", {"<|im_start|>", "<|im_end|>"}) == ChatTemplate::kChatMl);
  CHECK(detect("", {"<|start_header_id|>", "<|eot_id|>"}) == ChatTemplate::kLlama3);
  CHECK(detect("", {"<start_of_turn>"}) == ChatTemplate::kGemma);
  CHECK(detect("", {"<s>", "</s>"}, true) == ChatTemplate::kVicuna);
  CHECK(detect("", {}) == ChatTemplate::kRaw);
  CHECK(detect("{{ something else }}", {"<s>", "</s>"}, true) == ChatTemplate::kRaw);
  CHECK(detect("{{ something else }}", {"<|im_start|>"}) == ChatTemplate::kChatMl);
}

TEST_CASE("every template has a name") {
  CHECK(std::string(chat_template_name(ChatTemplate::kSmolVlm)) == "smolvlm");
  CHECK(std::string(chat_template_name(ChatTemplate::kGemma)) == "gemma");
}

TEST_CASE("a template has tools if it lists them and shows how they are called") {
  CHECK(find_tool_calls("{%- if tools %}{{- '<tools>' }}{%- endif %}{{- '\\n<tool_call>\\n{\"name\": \"' }}") ==
        ToolCalls::kJson);
  CHECK(find_tool_calls("{{- '<|tool>' }}{{- '<|tool_call>call:' + function['name'] + '{' -}}") == ToolCalls::kGemma4);
  for (const char* const none : {"{{- '<tools>' }}{{- '<tool_call>\\n<function=' }}", "{{- '<tools>' }}",
                                 "{{- '<tool_call>' }}", "{{- '<|tool_call>call:' }}", "{{- '<|tool>' }}", ""})
    CHECK(find_tool_calls(none) == ToolCalls::kNone);
}

TEST_CASE("a template's own system prompt is read, whatever else it writes") {
  const std::string prompt = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.";
  CHECK(default_system_prompt("<|im_start|>system\n" + prompt + "<|im_end|>\n") == prompt);
  CHECK(default_system_prompt("{{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}"
                              "{{- '<|im_start|>system\\n" +
                              prompt + "<|im_end|>\\n' }}") == prompt);
  for (const char* const none :
       {"", "<|im_start|>system", "<|im_start|>system\nYou are", "<|im_start|>system\n{{ text }}<|im_end|>",
        "{{ '<|im_start|>' + message.role + '<|im_end|>' }}", "<|im_start|>systems<|im_end|>"})
    CHECK(default_system_prompt(none).empty());
}

}  // namespace
}  // namespace ocellus

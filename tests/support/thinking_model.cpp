#include "tests/support/thinking_model.h"

namespace ocellus::test {

TemporaryFile thinking_file(const std::string& prompt_end) {
  GgufFile file;
  REQUIRE_MESSAGE(file.open(bundled_pair().model.c_str()).ok(), last_failure().sentence);
  GgufBuilder changed = is_slow_run() ? first_layers(bundled_pair().model, "llama.block_count") : GgufBuilder(file);
  std::vector<std::string> tokens;
  GgufStrings texts(*file.find("tokenizer.ggml.tokens"));
  for (int64_t i = 0; i < bundled_model().text().vocabulary; ++i) {
    const std::string text(texts.next());
    tokens.push_back(text == "<row_6_col_5>" ? "<think>" : text == "<row_6_col_6>" ? "</think>" : text);
  }
  changed.remove("tokenizer.ggml.tokens");
  changed.add_string_array("tokenizer.ggml.tokens", tokens);
  changed.remove("tokenizer.chat_template");
  changed.add_string("tokenizer.chat_template",
                     "<|im_start|>{{ messages }}<end_of_utterance>\n"
                     "{% if add_generation_prompt %}{{ 'Assistant:" +
                         prompt_end + "' }}{% endif %}");
  return TemporaryFile(changed);
}

const Model& thinking_model() {
  static const std::unique_ptr<Model> model = [] {
    const TemporaryFile text = thinking_file("<think>\\n");
    return open_pair(text.path(), bundled_pair().mmproj);
  }();
  return *model;
}

const Model& willing_model() {
  static const std::unique_ptr<Model> model = [] {
    const TemporaryFile text = thinking_file("");
    return open_pair(text.path(), bundled_pair().mmproj);
  }();
  return *model;
}

}  // namespace ocellus::test

#include "runtime/models/prompt_layout.h"

#include <doctest/doctest.h>

#include <string>
#include <tuple>

#include "runtime/vocabulary/white_space.h"
#include "tests/support/bundled_model.h"
#include "tests/support/text_sink.h"

namespace ocellus {
namespace {

using test::TextSink;

/// A conversation of a system text, a question, the answer "A1" and a second question, as one text.
std::string render(ChatTemplate form, std::string_view jinja = "") {
  TextSink sink;
  MessageState state;
  MessageWriter writer(find_layout("", form, jinja), state, sink);
  for (const auto& [role, text] : {std::tuple(Role::kSystem, "S"), std::tuple(Role::kUser, "Q1"),
                                   std::tuple(Role::kAnswer, "A1"), std::tuple(Role::kUser, "Q2")}) {
    if (form == ChatTemplate::kRaw && role == Role::kSystem) continue;
    REQUIRE(writer.begin(role).ok());
    REQUIRE(writer.add_text(text, false).ok());
  }
  REQUIRE(writer.end().ok());
  REQUIRE(writer.open_answer().ok());
  return sink.text;
}

}  // namespace

TEST_CASE("models of text alone have the forms of their families") {
  CHECK(render(ChatTemplate::kLlama2) == "[INST] <<SYS>>\nS\n<</SYS>>\n\nQ1 [/INST] A1 </s><s>[INST] Q2 [/INST]");
  CHECK(render(ChatTemplate::kLlama3) ==
        "<|start_header_id|>system<|end_header_id|>\n\nS<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nQ1"
        "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nA1<|eot_id|><|start_header_id|>user"
        "<|end_header_id|>\n\nQ2<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n");
  CHECK(render(ChatTemplate::kMistral, "[SYSTEM_PROMPT]") ==
        "[SYSTEM_PROMPT]S[/SYSTEM_PROMPT][INST]Q1[/INST]A1</s>[INST]Q2[/INST]");
  CHECK(render(ChatTemplate::kMistral) == "[INST]S\n\nQ1[/INST]A1</s>[INST]Q2[/INST]");
  CHECK(render(ChatTemplate::kRaw) == "Q1A1Q2");
}

TEST_CASE("the bundled model's answers may come first, and system messages later") {
  TextSink sink;
  MessageState state;
  MessageWriter writer(test::bundled_model().layout(), state, sink);
  for (const auto& [role, text] : {std::tuple(Role::kSystem, "S1"), std::tuple(Role::kAnswer, "A1"),
                                   std::tuple(Role::kSystem, "S2"), std::tuple(Role::kUser, "Q1")}) {
    REQUIRE(writer.begin(role).ok());
    REQUIRE(writer.add_text(text, false).ok());
  }
  REQUIRE(writer.end().ok());
  CHECK(sink.text ==
        "<|im_start|>S1\n\nAssistant: A1<end_of_utterance>\nSystem: S2<end_of_utterance>\nUser: "
        "Q1<end_of_utterance>\n");
}

TEST_CASE("the bundled model keeps the form that it was trained with, and published SmolVLM files have theirs") {
  const PromptLayout& own = test::bundled_model().layout();
  CHECK(own.is_plain);
  CHECK(std::string(own.user.before) == "User: ");
  CHECK(test::bundled_model().vision().views() == test::bundled_model().vision().family->plain_views);
  const PromptLayout& published =
      find_layout("SmolVLM", ChatTemplate::kSmolVlm, "{% if line['type'] == 'image' %}<end_of_utterance>");
  CHECK(!published.is_plain);
  CHECK(std::string(published.user.before) == "User:");
  CHECK(!find_layout("SmolVLM", ChatTemplate::kSmolVlm, "").is_plain);
}

TEST_CASE(
    "InternVL and LLaVA have their makers' form and system text, unless a file has the template for transformers") {
  for (const auto& [family, form, mark] : {std::tuple("InternVL", ChatTemplate::kChatMl, "'<IMG_CONTEXT>\\n'"),
                                           std::tuple("LLaVA-1.5", ChatTemplate::kVicuna, "'<image>\\n'"),
                                           std::tuple("LLaVA-1.6", ChatTemplate::kVicuna, "'<image>\\n'")}) {
    CAPTURE(family);
    CHECK(std::string(find_layout(family, form, "").system_text) != "");
    CHECK(std::string(find_layout(family, form, mark).system_text).empty());
    CHECK(std::string(find_layout(family, form, mark).picture.after) == "\n");
  }
}

TEST_CASE("white space at the ends of a text is what Python's strip removes") {
  CHECK(trim_white_space(" \t\n a b\r\n\x1c ") == "a b");
  CHECK(trim_white_space("\u00a0\u2003\u3000x\u2028\u205f") == "x");
  CHECK(trim_white_space("\u200bx\ufeff") == "\u200bx\ufeff");  // these are no white space
  CHECK(trim_white_space(" \xff ") == "\xff");
  CHECK(trim_white_space("\x85x\x80") == "\x85x\x80");  // bytes that are not UTF-8
  CHECK(trim_white_space(" \n ").empty());
  CHECK(trim_white_space("").empty());
}

}  // namespace ocellus

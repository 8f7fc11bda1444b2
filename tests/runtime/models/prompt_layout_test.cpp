#include "runtime/models/prompt_layout.h"

#include <doctest/doctest.h>

#include <string>
#include <tuple>

#include "runtime/vocabulary/white_space.h"
#include "tests/support/bundled_model.h"

namespace ocellus {

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

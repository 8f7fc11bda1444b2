#include "runtime/vocabulary/thought.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/support/gguf_builder.h"
#include "tests/support/tokenizer_loader.h"

namespace ocellus {
namespace {

constexpr char kQwen3Vl[] =
    "{{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning_content.strip('\\n') + '\\n</think>\\n\\n' }}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n<think>\\n' }}{%- endif %}";
constexpr char kQwen3[] =
    "{{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning_content }}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}"
    "{%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}"
    "{%- endif %}{%- endif %}";

constexpr const char* kThink[] = {"<think>", "</think>"};
constexpr const char* kChannel[] = {"<|channel>", "<channel|>"};

/// Letters, line breaks (one token for two), and the marks as tokens of this kind; 0: without them. Then the letters of
/// "thought".
struct Vocabulary {
  explicit Vocabulary(int32_t kind, const char* jinja = kQwen3Vl, const char* const (&marks_of_form)[2] = kThink) {
    std::vector<std::string> tokens = {"a", "b", "\u010a", "\u010a\u010a"};
    std::vector<int32_t> kinds(4, 1);
    for (const char* mark : marks_of_form) {
      if (kind == 0) continue;
      tokens.emplace_back(mark);
      kinds.push_back(kind);
    }
    for (const char* letter : {"t", "h", "o", "u", "g"}) {
      tokens.emplace_back(letter);
      kinds.push_back(1);
    }
    test::GgufBuilder builder;
    builder.add_string("tokenizer.ggml.model", "gpt2");
    builder.add_string("tokenizer.ggml.pre", "gpt-2");
    builder.add_string_array("tokenizer.ggml.tokens", tokens);
    builder.add_i32_array("tokenizer.ggml.token_type", kinds);
    builder.add_string_array("tokenizer.ggml.merges", {"\u010a \u010a"});
    test::ExactBytes bytes(builder.build());
    REQUIRE_MESSAGE(loaded.parse(bytes.data(), bytes.size()).ok(), last_failure().sentence);
    REQUIRE_MESSAGE(marks.read(jinja, loaded.tokenizer).ok(), last_failure().sentence);
  }

  /// Writes an answer whose sampled tokens are these letters, < for <think> and > for </think>. What the runtime writes
  /// is in brackets; the parts are capital for thoughts.
  std::string write(std::string sampled, int32_t most) {
    ThoughtState state = marks.begin();
    std::string out;
    const int64_t most_left = marks.most_left(state, most);
    int64_t before = 0;  // tokens before the answer
    for (size_t at = 0; at < sampled.size();) {
      const bool may_write = marks.may_write_after_next(previous, most);
      TokenId token = marks.next(state);
      const bool given = token != kNoToken;
      CHECK((may_write || !given));
      const int64_t left = marks.most_left(state, most);
      if (!given) {
        const char letter = sampled[at++];
        token = letter == '<' ? 4 : letter == '>' ? 5 : letter - 'a';
      }
      previous = state;
      const ThoughtPart part = marks.accept(token, most, &state);
      before += part != ThoughtPart::kAnswer ? 1 : 0;
      if (part != ThoughtPart::kAnswer) CHECK(marks.most_left(state, most) < left);
      const std::string names[] = {"a", "b", "n", "nn", "<", ">", "t", "h", "o", "u", "g"};
      const std::string name = names[token];
      out += given ? "[" + name + "]" : part == ThoughtPart::kThought ? std::string(1, char(name[0] - 32)) : name;
    }
    CHECK(before <= most_left);
    return out;
  }

  test::LoadedTokenizer loaded;
  ThoughtMarks marks;
  ThoughtState previous = {.phase = AnswerPhase::kStart, .script = ThoughtScript::kOpen};
};

TEST_CASE("models think always, if told, or never") {
  for (const int32_t kind : {1, 3, 4}) {
    CAPTURE(kind);
    CHECK(Vocabulary(kind).marks.thinking() == Thinking::kAlways);
    CHECK(Vocabulary(kind, kQwen3).marks.thinking() == Thinking::kIfTold);
    CHECK(Vocabulary(kind, "").marks.thinking() == Thinking::kIfTold);
  }
  CHECK(Vocabulary(0).marks.thinking() == Thinking::kNever);
  CHECK(Vocabulary(3).marks.standard_tokens() == kStandardThoughtTokens);
  CHECK(Vocabulary(3, kQwen3).marks.standard_tokens() == 0);
  CHECK(Vocabulary(3).marks.mark_tokens() == 5);
  CHECK(Vocabulary(0).marks.mark_tokens() == 0);
}

TEST_CASE("a thought ends by itself or at its bound, and nothing is written into answers") {
  for (const int32_t kind : {1, 3, 4}) {
    CAPTURE(kind);
    CHECK(Vocabulary(kind).write("ab>ab", 10) == "[<][n]AB>ab");
    CHECK(Vocabulary(kind).write("ababab", 3) == "[<][n]ABA[n][>][nn]bab");
    CHECK(Vocabulary(kind).write("ab", 0) == "[<][nn][>][nn]ab");
    CHECK(Vocabulary(kind).write(">ab<a>", 5) == "[<][n]>ab<a>");
  }
}

TEST_CASE("a model that thinks if told opens its thought itself, at the beginning of an answer only") {
  CHECK(Vocabulary(3, kQwen3).write("abba", 5) == "abba");
  CHECK(Vocabulary(3, kQwen3).write("a<b>a", 5) == "a<b>a");
  CHECK(Vocabulary(3, kQwen3).write("<ab>ab", 5) == "<AB>ab");
  CHECK(Vocabulary(3, kQwen3).write("<abab", 2) == "<AB[n][>][nn]ab");
  CHECK(Vocabulary(3, kQwen3).write("<ab", 0) == "<[nn][>][nn]ab");
  CHECK(Vocabulary(0).write("aba", 5) == "aba");
}

TEST_CASE("an empty thought has no line breaks where the template writes it like that") {
  constexpr char kNemotron[] =
      "{%- set content = '<think></think>' ~ content -%}{%- if add_generation_prompt %}{%- if enable_thinking %}"
      "{{- '<|im_start|>assistant\\n<think>\\n' }}{%- else %}{{- '<|im_start|>assistant\\n<think></think>' }}";
  CHECK(Vocabulary(3, kNemotron).marks.thinking() == Thinking::kAlways);
  CHECK(Vocabulary(3, kNemotron).write("ab>ab", 10) == "[<][n]AB>ab");
  CHECK(Vocabulary(3, kNemotron).write("ababab", 3) == "[<][n]ABA[n][>]bab");
  CHECK(Vocabulary(3, kNemotron).write("ab", 0) == "[<][>]ab");
}

TEST_CASE("Gemma 4's thoughts begin with their title, which is no part of them") {
  const auto write = [](const char* sampled, int32_t most) { return Vocabulary(3, "", kChannel).write(sampled, most); };
  CHECK(Vocabulary(3, "", kChannel).marks.thinking() == Thinking::kIfTold);
  CHECK(Vocabulary(3, "", kChannel).marks.mark_tokens() == 10);
  CHECK(write("abba", 5) == "abba");
  CHECK(write("<ab>ab", 5) == "<[t][h][o][u][g][h][t][n]AB>ab");
  CHECK(write("<abab", 2) == "<[t][h][o][u][g][h][t][n]AB[>]ab");
  CHECK(write("<ab", 0) == "<[t][h][o][u][g][h][t][n][>]ab");
}

TEST_CASE("white space between a thought and its answer is not shown") {
  ThoughtState state = {.phase = AnswerPhase::kClosed};
  CHECK(visible_text("\n", &state).empty());
  CHECK(visible_text("\n ", &state).empty());
  CHECK(visible_text(" \na b ", &state) == "a b ");
  CHECK(visible_text("\n c", &state) == "\n c");
  ThoughtState without = {};
  CHECK(visible_text(" a", &without) == " a");
}

}  // namespace
}  // namespace ocellus

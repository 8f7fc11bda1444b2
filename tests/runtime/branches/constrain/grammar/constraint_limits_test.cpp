// What constraints may cost, and that they can be stopped: steps of compiling and of masks, stacks, and constraints
// under which no answer can begin.
#include <doctest/doctest.h>
#include <pthread.h>

#include <memory>

#include "runtime/branches/constrain/grammar/gbnf.h"
#include "runtime/branches/constrain/grammar/regex.h"
#include "runtime/branches/constrain/grammar/schema.h"
#include "tests/support/constrained.h"
#include "tests/support/grammar_reference.h"
#include "tests/support/small_run.h"

namespace ocellus {
namespace {

using test::ByteVocabulary;
using test::CompiledText;

enum class Form { kRegex, kGbnf, kSchema };

Status compile(Form form, const std::string& text, const ByteVocabulary& words, CompiledText* out) {
  std::vector<uint64_t> workspace(size_t{1} << 19);
  const HostView<std::byte> room(reinterpret_cast<std::byte*>(workspace.data()), 1, int64_t{8} << 19);
  Expression e = kNoExpression;
  if (form == Form::kRegex) OCELLUS_TRY(read_regex(text, {}, &out->grammar, &e));
  if (form == Form::kGbnf) OCELLUS_TRY(read_gbnf(text, &words.trie, &out->grammar, &e));
  if (form == Form::kSchema) OCELLUS_TRY(read_schema(text, {}, room, &out->grammar, &e));
  return out->compile(e, words.trie);
}

bool accepts(Matcher* matcher, const Constraint& constraint, const std::string& text) {
  matcher->begin(constraint.automaton());
  return (text.empty() || matcher->advance(text)) && matcher->accepts();
}

TEST_CASE("counts within counts are one count where the texts are the same, and else what they say") {
  ByteVocabulary words;
  for (int code = 0; code < 3 * 3 * 3 * 3 * 3 * 3; ++code) {
    int rest = code;
    const auto take = [&rest] { return std::exchange(rest, rest / 3) % 3; };
    std::string text = ".";
    for (int level = 0; level < 3; ++level) {
      const int least = take(), more = take();
      text = "(?:" + text + "){" + std::to_string(least) + "," + std::to_string(least + more) + "}";
    }
    CompiledText compiled(1 << 19);
    Expression e = kNoExpression;
    REQUIRE(read_regex(text, {}, &compiled.grammar, &e).ok());
    REQUIRE(compiled.compile(e, words.trie).ok());
    for (size_t length = 0; length <= 30; ++length) {
      const std::string all(length, 'a');
      const bool expected = test::GrammarReference(compiled.grammar, all).matches(e);
      CHECK_MESSAGE(accepts(&words.matcher, compiled.constraint, all) == expected, text, " ", length);
    }
  }
}

TEST_CASE("repetitions of an item after each other are one") {
  ByteVocabulary words;
  std::string row;
  for (int i = 0; i < 90; ++i) row += ".{0,9}";
  CompiledText compiled;
  REQUIRE(compile(Form::kRegex, row + "x", words, &compiled).ok());
  for (const size_t length : {0, 1, 809, 810, 811})
    CHECK(accepts(&words.matcher, compiled.constraint, std::string(length, 'y') + "x") == (length <= 810));
}

/// Answers with the letter over and over; returns the most steps that a mask took.
int64_t most_steps(ByteVocabulary* words, CompiledText* text, int letters) {
  Matcher& matcher = words->matcher;
  matcher.set_meter(nullptr);
  matcher.begin(text->constraint.automaton());
  std::vector<uint32_t> mask(static_cast<size_t>(words->trie.words()));
  int64_t most = 0;
  for (int i = 0; i < letters; ++i) {
    StepMeter meter("a mask", kMostMaskSteps, nullptr);
    matcher.set_meter(&meter);
    CHECK(text->constraint.fill_mask(&matcher, words->trie, mask.data()) > 0);
    CHECK_MESSAGE(meter.status().ok(), last_failure().sentence);
    most = std::max(most, meter.taken());
    matcher.set_meter(nullptr);
    REQUIRE(matcher.advance("a"));
  }
  CHECK(matcher.dropped() == 0);
  return most;
}

std::vector<std::string> many_words() {
  std::vector<std::string> texts;
  for (char first = 'a'; first <= 'z'; ++first)
    for (char second = 'a'; second <= 'z'; ++second)
      for (const char* end : {" ", "a ", "ation", "ing and "}) texts.push_back(std::string{first, second} + end);
  return texts;
}

TEST_CASE("nested counts make masks of few steps") {
  ByteVocabulary words(many_words());
  for (const char* pattern :
       {"(?:(?:(?:.{0,1000}){0,1000}){0,1000}){0,1000}", "(?:(?:(?:.{0,500}|[^x]{0,600}){0,1000}){0,1000}b?){0,1000}",
        "(?:(?:a.{1,1000}){0,1000}b?){0,1000}", ".*a.{36}", "(?:[a-z]{0,90} ?){1,2000}"}) {
    CAPTURE(pattern);
    CompiledText text(8 << 20);
    REQUIRE_MESSAGE(compile(Form::kRegex, pattern, words, &text).ok(), last_failure().sentence);
    CHECK(most_steps(&words, &text, 60) < kMostMaskSteps / 10);
  }
}

/// Grammars of many rules with counts, each of which has tables of its own.
std::string many_counts(int rules) {
  std::string all = "root ::= ", rest;
  for (int i = 0; i < rules; ++i) {
    const std::string n = std::to_string(i);
    all += (i > 0 ? " | a" : "a") + n;
    rest += "a" + n + " ::= ( b" + n + " | c" + n + " ){0," + std::to_string(1000 + i) + "}\nb" + n + " ::= .{0," +
            std::to_string(500 + i) + "}\nc" + n + " ::= [^x]{0," + std::to_string(600 + i) + "}\n";
  }
  return all + "\n" + rest;
}

TEST_CASE("compiling takes its steps at most, and says that it had no more") {
  ByteVocabulary words;
  const std::string late = "[ab]*a[ab]{30}(?:[ab]*b[ab]{17})?";
  for (const auto& [form, text] : {std::pair(Form::kRegex, late), std::pair(Form::kGbnf, many_counts(200))}) {
    StepMeter meter("compiling", 100000, nullptr);
    CompiledText few(8 << 20, &meter);
    CHECK(compile(form, text, words, &few).code() == Code::kUnsupported);
    CHECK(std::string(last_failure().sentence) ==
          "compiling takes more than 100000 steps: make it simpler, with fewer counts and choices inside each other");
    CHECK(meter.taken() < 110000);
  }
}

TEST_CASE("compiling and masks are stopped by a cancellation or a deadline") {
  ByteVocabulary words(many_words());
  StopSignal cancelled, late;
  cancelled.cancel();
  late.set_deadline(1);
  for (const auto& [stop, code] : {std::pair(&cancelled, Code::kCancelled), std::pair(&late, Code::kDeadline)}) {
    StepMeter meter("compiling", kMostCompileSteps, stop);
    CompiledText stopped(8 << 20, &meter);
    CHECK(compile(Form::kGbnf, many_counts(50), words, &stopped).code() == code);
    CompiledText text(8 << 20);
    REQUIRE(compile(Form::kRegex, "(?:[a-z]{2,9} ?){3,200}", words, &text).ok());
    words.matcher.set_meter(nullptr);
    words.matcher.begin(text.constraint.automaton());
    StepMeter mask_meter("a mask", kMostMaskSteps, stop);
    words.matcher.set_meter(&mask_meter);
    std::vector<uint32_t> mask(static_cast<size_t>(words.trie.words()));
    CHECK(text.constraint.fill_mask(&words.matcher, words.trie, mask.data()) == 0);
    CHECK(mask_meter.status().code() == code);
    words.matcher.set_meter(nullptr);
    CHECK(text.constraint.fill_mask(&words.matcher, words.trie, mask.data()) == 2);  // nothing half made was kept
  }
}

TEST_CASE("a mask takes its steps at most, and says that it had no more") {
  ByteVocabulary words(many_words());
  CompiledText text(8 << 20);
  REQUIRE(compile(Form::kGbnf, "root ::= s\ns ::= \"(\" s \")\" s | [^()] s | \"(\" s |", words, &text).ok());
  StepMeter meter("a mask", 5000, nullptr);
  words.matcher.set_meter(nullptr);
  words.matcher.begin(text.constraint.automaton());
  words.matcher.set_meter(&meter);
  std::vector<uint32_t> mask(static_cast<size_t>(words.trie.words()));
  CHECK(text.constraint.fill_mask(&words.matcher, words.trie, mask.data()) == 0);
  CHECK(meter.status().code() == Code::kUnsupported);
  CHECK(std::string(last_failure().sentence).starts_with("a mask takes more than 5000 steps: "));
  CHECK(meter.taken() < 8000);
}

TEST_CASE("a constraint under which no answer can begin is refused") {
  ByteVocabulary words;
  std::string deep = "root ::= r0\n";
  for (int i = 0; i < 300; ++i) deep += "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + " (\"x\" r0)?\n";
  CompiledText text(8 << 20);
  CHECK(compile(Form::kGbnf, deep + "r300 ::= \"y\"", words, &text).code() == Code::kUnsupported);
  CHECK(std::string(last_failure().sentence).starts_with("no answer can begin: "));
  for (const char* none : {"root ::= \"a\" root", "root ::= [b] x\nx ::= x2 \"c\"\nx2 ::= x"}) {
    CompiledText never(8 << 20);
    CHECK(compile(Form::kGbnf, none, words, &never).code() == Code::kUnsupported);
    CHECK(std::string(last_failure().sentence).starts_with("no text satisfies the constraint"));
  }
  const ByteVocabulary without_q({}, "q");
  CompiledText unspelled(8 << 20);
  CHECK(compile(Form::kRegex, "qa|aq", without_q, &unspelled).code() == Code::kUnsupported);
}

TEST_CASE("a text that does not fit is not left out of a grammar") {
  std::vector<uint64_t> memory(16);
  Grammar grammar({reinterpret_cast<std::byte*>(memory.data()), 1, 128});
  const Expression short_text = grammar.text("a");
  grammar.choice(short_text, grammar.text(std::string(200, 'b')));
  CHECK(grammar.status().code() == Code::kFull);
}

TEST_CASE("tokens are named by their text or number, and match as a whole") {
  ByteVocabulary words({"think", "12", "ab"}, "", {"<think>", "</think>"});
  const TokenId open = words.loaded.tokenizer.find("<think>"), close = words.loaded.tokenizer.find("</think>");
  const std::string by_number = "root ::= <[" + std::to_string(open) + "]> !<[" + std::to_string(close) + "]>* <[" +
                                std::to_string(close) + "]> ([0-9]+ | \"a\" <[98]>)";
  for (const std::string& grammar :
       {std::string("root ::= <think> t </think> ([0-9]+ | \"a\" <b>)\nt ::= !</think>*"), by_number}) {
    CompiledText text(8 << 20);
    const std::string spelled = grammar.find("<b>") == std::string::npos
                                    ? grammar
                                    : std::string(grammar).replace(grammar.find("<b>"), 3, "<[98]>");
    REQUIRE_MESSAGE(compile(Form::kGbnf, spelled, words, &text).ok(), last_failure().sentence);
    Matcher& matcher = words.matcher;
    matcher.begin(text.constraint.automaton());
    std::vector<uint32_t> mask(static_cast<size_t>(words.trie.words()));
    const auto allowed = [&] {
      CHECK(text.constraint.fill_mask(&matcher, words.trie, mask.data()) > 0);
      std::vector<TokenId> all;
      for (TokenId token = 0; token <= words.end; ++token)
        if (has_token(mask.data(), token)) all.push_back(token);
      return all;
    };
    const auto move = [&](TokenId token) { return matcher.advance(token, words.loaded.tokenizer.piece(token, false)); };
    CHECK(allowed() == std::vector<TokenId>{open});
    CHECK_FALSE(move('x'));
    REQUIRE(move(open));
    CHECK(allowed().size() == static_cast<size_t>(words.end));  // all but the end
    for (const TokenId thought : {TokenId{'x'}, open, TokenId{256}}) REQUIRE(move(thought));
    CHECK(allowed().size() == static_cast<size_t>(words.end));
    REQUIRE(move(close));
    const std::vector<TokenId> digits = allowed();
    CHECK(digits.size() == 12);  // ten digits, 12 and a
    REQUIRE(move('a'));
    CHECK(allowed() == std::vector<TokenId>{98});
    REQUIRE(move(98));
    CHECK(allowed() == std::vector<TokenId>{words.end});
  }
}

TEST_CASE("what names no token is refused with its place") {
  ByteVocabulary words({"ab"});
  const auto refused = [&](const char* text, const char* sentence) {
    CompiledText compiled;
    CHECK(compile(Form::kGbnf, text, words, &compiled).code() == Code::kBadArgument);
    CHECK(std::string(last_failure().sentence) == std::string("the grammar, line 1, column 10: ") + sentence);
  };
  refused("root ::= <nothing>", "the vocabulary has no token of this text; write it as a literal");
  refused("root ::= <[100000]>", "the vocabulary has fewer tokens");
  refused("root ::= <[12>", "a token's number is written as <[1000]>");
  refused("root ::= !\"a\"", "a token is <its text> or <[its number]>, any other one !<...>");
  refused("root ::= <think", "a token is <its text> or <[its number]>, any other one !<...>");
  refused("root ::= <", "a token is <its text> or <[its number]>, any other one !<...>");
  refused("root ::= <|im_end|>",
          "the token ends an answer or has no text, so that no grammar can ask for it; end the rule instead");
  CompiledText compiled;
  CHECK(compile(Form::kGbnf, "root ::= !<|im_end|> \"a\"", words, &compiled).ok());
}

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

TEST_CASE("the deepest constraints take a small part of a calling thread's stack") {
  struct Deep {
    ByteVocabulary words;
    std::vector<std::pair<Form, std::string>> texts;
  } deep;
  std::string chain = "root ::= c0\n";
  for (int i = 0; i < 4000; ++i) chain += "c" + std::to_string(i) + " ::= c" + std::to_string(i + 1) + "\n";
  std::string items = chain + "c4000 ::= [a-z]\n";
  items.replace(0, 11, "root ::= c0{0,9} c0{3,4000}");
  deep.texts = {
      {Form::kGbnf, "root ::= " + repeated("(", 200) + "\"a\"" + repeated(")*", 200)},
      {Form::kGbnf, "root ::= " + repeated("(", 1000000)},
      {Form::kGbnf, chain + "c4000 ::= \"a\""},
      {Form::kGbnf, items},
      {Form::kRegex, repeated("(?:a|", 100) + "b" + repeated("){0,3}", 100)},
      {Form::kRegex, repeated("(", 60000)},
      {Form::kSchema, repeated(R"({"items": )", 127) + "{}" + repeated("}", 127)},
      {Form::kSchema, repeated(R"({"anyOf": [)", 60) + "{}" + repeated("]}", 60)},
      {Form::kSchema, repeated(R"({"properties": {"a": )", 60) + "{}" + repeated("}}", 60)},
      {Form::kSchema, repeated("[", 1000000)},
      {Form::kSchema, R"({"const": )" + repeated("[", 120) + repeated("]", 120) + "}"},
  };
  const auto run = [](void* argument) -> void* {
    auto* const all = static_cast<Deep*>(argument);
    for (const auto& [form, text] : all->texts) {
      const auto compiled = std::make_unique<CompiledText>(8 << 20);
      (void)compile(form, text, all->words, compiled.get());
    }
    return nullptr;
  };
  const size_t stack = test::is_sanitized() ? 4 << 20 : 200 << 10;  // frames are larger there
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  REQUIRE(pthread_attr_setstacksize(&attributes, stack) == 0);
  pthread_t thread;
  REQUIRE(pthread_create(&thread, &attributes, run, &deep) == 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

}  // namespace
}  // namespace ocellus

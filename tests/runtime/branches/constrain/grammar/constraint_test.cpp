#include "runtime/branches/constrain/grammar/constraint.h"

#include <doctest/doctest.h>

#include "runtime/branches/constrain/grammar/regex.h"
#include "runtime/branches/constrain/grammar/schema.h"
#include "tests/support/constrained.h"
#include "tests/support/grammar_reference.h"

namespace ocellus {
namespace {

using test::ByteVocabulary;
using test::CompiledText;
using test::Random;

constexpr char kLetters[] = "abc\"";

std::string random_text(Random* random, int64_t most) {
  std::string text;
  for (int64_t i = random->integer(0, most); i > 0; --i) text += kLetters[random->integer(0, 3)];
  return text;
}

/// An expression over a few letters, of rules that may refer to each other in any way.
Expression random_expression(Grammar* g, Random* random, const std::vector<RuleId>& rules, int depth) {
  const int64_t kind = random->integer(0, depth > 0 ? 7 : 2);
  const auto part = [&] { return random_expression(g, random, rules, depth - 1); };
  if (kind == 0) return g->text(random_text(random, 3));
  if (kind == 1) {
    ByteSet set;
    for (int i = 0; i < 2; ++i) set.add(kLetters[random->integer(0, 3)]);
    return g->byte(random->integer(0, 3) == 0 ? ByteSet().add_range(32, 126) : set);
  }
  if (kind == 2) return g->rule(rules[static_cast<size_t>(random->integer(0, static_cast<int64_t>(rules.size()) - 1))]);
  if (kind <= 4) {
    const int32_t least = static_cast<int32_t>(random->integer(0, 3));
    const int32_t more = static_cast<int32_t>(random->integer(0, 2) == 0 ? 40 : random->integer(0, 3));
    return g->repeat(part(), least, random->integer(0, 3) == 0 ? kUnbounded : least + more);
  }
  ExpressionList list;
  for (int64_t i = random->integer(1, 3); i > 0; --i) g->append(&list, part());
  return kind == 5 ? g->choice(list) : g->sequence(list);
}

/// Several rules of random expressions; the first one is the start.
Expression random_grammar(Grammar* g, Random* random) {
  std::vector<RuleId> rules;
  for (int64_t i = random->integer(1, 4); i > 0; --i) rules.push_back(g->add_rule());
  for (const RuleId rule : rules) g->define(rule, random_expression(g, random, rules, 3));
  return g->rule(rules[0]);
}

std::vector<std::string> random_vocabulary(Random* random) {
  std::set<std::string> texts;
  while (texts.size() < 300) {
    const std::string text = random_text(random, 6);
    if (text.size() > 1) texts.insert(text);
  }
  return {texts.begin(), texts.end()};
}

bool has_token(const std::vector<uint32_t>& mask, TokenId token) {
  return (mask[static_cast<size_t>(token) / 32] >> (token % 32) & 1) != 0;
}

/// Goes on by random tokens of the mask; every mask holds exactly the tokens by whose bytes the matcher can go on, and
/// the end where the reference matches. Returns the number of tokens.
int walk(ByteVocabulary* words, CompiledText* text, Expression start, Random* random) {
  Matcher& matcher = words->matcher;
  matcher.begin(text->constraint.automaton());
  std::vector<uint32_t> mask(static_cast<size_t>(words->trie.words()));
  auto state = std::make_unique<MatchState>();
  std::string so_far;
  int count = 0;
  for (; count < 12; ++count) {
    REQUIRE(matcher.store(state.get()).ok());
    matcher.load(text->constraint.automaton(), *state);
    const int32_t found = text->constraint.fill_mask(&matcher, words->trie, mask.data());
    const bool ends = test::GrammarReference(text->grammar, so_far).matches(start);
    CHECK_MESSAGE(has_token(mask, words->end) == ends, so_far);
    std::vector<TokenId> allowed;
    for (TokenId token = 0; token < words->end; ++token) {
      const Matcher::Mark mark = matcher.mark();
      const bool fits = [&] {
        Matcher::Level level = matcher.level();
        for (const char c : words->loaded.tokenizer.piece(token, false)) {
          level = matcher.after(level, static_cast<uint8_t>(c));
          if (level.count == 0) return false;
        }
        return true;
      }();
      matcher.drop_after(mark);
      if (has_token(mask, token) != fits)
        FAIL_CHECK(so_far, " then ", words->loaded.tokenizer.piece(token, false), " allowed ", has_token(mask, token));
      if (fits) allowed.push_back(token);
    }
    CHECK(found == std::min<int64_t>(2, static_cast<int64_t>(allowed.size()) + (ends ? 1 : 0)));
    CHECK_MESSAGE(found > 0, "no way on after ", so_far);
    if (allowed.empty()) break;
    const TokenId next = allowed[static_cast<size_t>(random->integer(0, static_cast<int64_t>(allowed.size()) - 1))];
    so_far += words->loaded.tokenizer.piece(next, false);
    REQUIRE(matcher.advance(words->loaded.tokenizer.piece(next, false)));
    if (matcher.dropped() > 0) break;
  }
  return count;
}

TEST_CASE("masks hold exactly the tokens that some text goes on with, in random grammars") {
  Random random(1);
  ByteVocabulary words(random_vocabulary(&random));
  int compiled = 0, tokens = 0;
  for (int round = 0; round < 400; ++round) {
    CompiledText text(1 << 20);
    const Expression start = random_grammar(&text.grammar, &random);
    const Status status = text.compile(start, words.trie);
    if (status.code() == Code::kUnsupported || status.code() == Code::kFull) continue;
    REQUIRE(status.ok());
    ++compiled;
    for (int i = 0; i < 3; ++i) tokens += walk(&words, &text, start, &random);
  }
  CHECK(compiled > 150);
  CHECK(tokens > 2000);
}

TEST_CASE("what stands at several places of a schema is compiled once, however deep it nests") {
  const ByteVocabulary vocabulary;
  std::string schema = R"({"enum": ["a sentence that is longer than what is copied, so that it is called instead"]})";
  for (int level = 0; level < 24; ++level) {
    schema = level % 2 == 0 ? R"({"type": "array", "minItems": 2, "items": )" + schema + "}"
                            : R"({"properties": {"a": {"type": "null"}, "b": )" + schema + "}}";
  }
  CompiledText text(8 << 20);
  std::vector<uint64_t> workspace(1 << 18);
  const HostView<std::byte> room(reinterpret_cast<std::byte*>(workspace.data()), 1, 8 << 18);
  Expression all = kNoExpression;
  REQUIRE_MESSAGE(read_schema(schema, {}, room, &text.grammar, &all).ok(), last_failure().sentence);
  REQUIRE_MESSAGE(text.compile(all, vocabulary.trie).ok(), last_failure().sentence);
  CHECK(text.constraint.automaton().state_count < 2000);
}

}  // namespace
}  // namespace ocellus

#include "runtime/branches/constrain/grammar/grammar.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/support/grammar_room.h"

namespace ocellus {
namespace {

using Room = test::GrammarRoom;

/// UTF-8 of any number up to 0x10FFFF, surrogates too.
std::string encoded(uint32_t character) {
  std::string out;
  const auto tail = [&](int shift) { out += static_cast<char>(0x80 | (character >> shift & 0x3F)); };
  if (character < 0x80) return {static_cast<char>(character)};
  if (character < 0x800) {
    out += static_cast<char>(0xC0 | character >> 6);
  } else if (character < 0x10000) {
    out += static_cast<char>(0xE0 | character >> 12);
    tail(6);
  } else {
    out += static_cast<char>(0xF0 | character >> 18);
    tail(12);
    tail(6);
  }
  tail(0);
  return out;
}

TEST_CASE("a range of characters is exactly their UTF-8, and no surrogates") {
  const uint32_t edges[] = {0,      1,      0x41,   0x7F,   0x80,   0x7FF,  0x800,   0xFFF,   0x1000,
                            0xD7FF, 0xD800, 0xDFFF, 0xE000, 0xFFFD, 0xFFFF, 0x10000, 0x3FFFF, 0x10FFFF};
  for (const uint32_t first : edges) {
    for (const uint32_t last : edges) {
      Room room;
      const CharacterRange range{first, last};
      const Expression e = room.grammar.character(&range, 1);
      for (const uint32_t edge : edges) {
        for (const uint32_t c : {edge, edge + 1, edge == 0 ? 0 : edge - 1}) {
          if (c > 0x10FFFF) continue;
          const bool inside = first <= c && c <= last && (c < 0xD800 || c > 0xDFFF);
          CHECK_MESSAGE(room.matches(e, encoded(c)) == inside, first, " ", last, " ", c);
        }
      }
    }
  }
}

TEST_CASE("lists, repetitions and rules match what they say") {
  Room room;
  Grammar& g = room.grammar;
  const RuleId nested = g.add_rule();
  g.define(nested, g.sequence(g.text("("), g.sequence(g.optional(g.rule(nested)), g.text(")"))));
  const Expression e = g.repeat(g.choice(g.rule(nested), g.byte(ByteSet().add('a').add('b'))), 1, 3);
  REQUIRE(g.status().ok());
  for (const char* text : {"a", "ba", "((()))", "a()b"}) CHECK(room.matches(e, text));
  for (const char* text : {"", "abab", "(()", "c"}) CHECK_FALSE(room.matches(e, text));
  CHECK_FALSE(room.matches(g.repeat(g.text("a"), 2, 1), ""));
  CHECK(room.matches(g.repeat(g.text("a"), 0, 0), ""));
}

TEST_CASE("a grammar without room says so once, and takes what follows without harm") {
  Room room(256);
  Grammar& g = room.grammar;
  ExpressionList list;
  for (int i = 0; i < 100; ++i) g.append(&list, g.text("abc"));
  const RuleId rule = g.add_rule();
  g.define(rule, g.repeat(g.sequence(list), 1, 2));
  CHECK(g.status().code() == Code::kFull);
  CHECK(g.rule(rule) == kNoExpression);
}

TEST_CASE("expressions nested too deep are refused") {
  Room room;
  Expression e = room.grammar.text("a");
  for (int i = 0; i < 1000; ++i) e = room.grammar.repeat(e, 0, 2);
  CHECK(room.grammar.status().code() == Code::kUnsupported);
}

}  // namespace
}  // namespace ocellus

#include "runtime/branches/constrain/grammar/json_grammar.h"

#include "platform/utf8.h"
#include "runtime/branches/constrain/grammar/text_after.h"

namespace ocellus {
namespace {

constexpr int kMostNameCharacters = 200;
constexpr int kFlatDepth = 32;  // expressions deeper than this are made rules
constexpr CharacterRange kWide = {0x80, 0x10FFFF};

ByteSet plain_ascii() { return ByteSet().add_range(0x20, 0x21).add_range(0x23, 0x5B).add_range(0x5D, 0x7F); }

ByteSet digits() { return ByteSet().add_range('0', '9'); }

ByteSet hex_digits() { return digits().add_range('a', 'f').add_range('A', 'F'); }

/// Four hexadecimal digits that are no surrogate.
Expression add_unit(Grammar& g) {
  const ByteSet d = ByteSet().add('d').add('D');
  const ByteSet others = digits().add_range('a', 'c').add_range('A', 'C').add_range('e', 'f').add_range('E', 'F');
  const Expression hex = g.byte(hex_digits());
  const Expression low = g.sequence(g.byte(d), g.sequence(g.byte(ByteSet().add_range('0', '7')), g.repeat(hex, 2, 2)));
  return g.choice(g.sequence(g.byte(others), g.repeat(hex, 3, 3)), low);
}

Expression add_sequence(Grammar& g, std::initializer_list<Expression> items) {
  ExpressionList list;
  for (const Expression item : items) g.append(&list, item);
  return g.sequence(list);
}

Expression add_set(Grammar& g, std::string_view bytes) {
  ByteSet set;
  for (const char c : bytes) set.add(static_cast<uint8_t>(c));
  return g.byte(set);
}

}  // namespace

Expression JsonGrammar::character() {
  if (character_ != kNoExpression) return character_;
  Grammar& g = grammar_;
  const Expression simple = add_set(g, "\"\\/bfnrt");
  const Expression escape = g.sequence(g.text("\\"), g.choice(simple, g.sequence(g.text("u"), add_unit(g))));
  return character_ = g.choice(plain_character(), escape);
}

Expression JsonGrammar::string(int32_t least, int32_t most) {
  Grammar& g = grammar_;
  const bool is_any = least == 0 && most == kUnbounded;
  if (is_any && string_ != kNoExpression) return string_;
  const Expression e = add_sequence(g, {g.text("\""), g.repeat(character(), least, most), g.text("\"")});
  if (is_any) string_ = e;
  return e;
}

Expression JsonGrammar::plain_character() {
  if (plain_character_ == kNoExpression)
    plain_character_ = grammar_.choice(grammar_.byte(plain_ascii()), wide_character());
  return plain_character_;
}

Expression JsonGrammar::wide_character() {
  if (wide_character_ == kNoExpression) wide_character_ = grammar_.character(&kWide, 1);
  return wide_character_;
}

/// The end of a string without escapes, its quote included.
Expression JsonGrammar::plain_rest() {
  if (plain_rest_ == kNoExpression)
    plain_rest_ = grammar_.sequence(grammar_.repeat(plain_character(), 0, kUnbounded), grammar_.text("\""));
  return plain_rest_;
}

struct JsonGrammar::Names {
  const std::string_view* at;
  int32_t character(int32_t index, size_t offset, size_t* bytes) const {
    int length = 0;
    const int32_t c = decode_utf8(text_after(at[index], offset), &length);
    *bytes = static_cast<size_t>(length);
    return c;
  }
};

Expression JsonGrammar::string_other_than(const std::string_view* names, int32_t count) {
  return grammar_.sequence(grammar_.text("\""), other_names({names}, 0, count, 0, 0));
}

/// Walks names first .. last - 1, which agree in their first `offset` bytes, as a trie.
Expression JsonGrammar::other_names(const Names& names, int32_t first, int32_t last, size_t offset, int level) {
  if (level > kMostNameCharacters) {
    grammar_.fail(OCELLUS_FAIL(Code::kUnsupported, "a name of more than %d characters beside additional ones",
                               kMostNameCharacters));
    return kNoExpression;
  }
  ExpressionList list;
  const bool is_name = first < last && names.at[first].size() == offset;
  if (is_name) ++first;
  if (!is_name) grammar_.append(&list, grammar_.text("\""));
  grammar_.append(&list, grammar_.sequence(other_characters(names, first, last, offset), plain_rest()));
  while (first < last) {
    size_t bytes = 0, next_bytes = 0;
    const int32_t c = names.character(first, offset, &bytes);
    int32_t end = first + 1;
    while (end < last && names.character(end, offset, &next_bytes) == c) ++end;
    const Expression rest = other_names(names, first, end, offset + bytes, level + 1);
    grammar_.append(&list,
                    grammar_.sequence(grammar_.text(text_after(names.at[first], offset).substr(0, bytes)), rest));
    first = end;
  }
  return flatten(grammar_.choice(list));
}

/// A character that stands at `offset` in none of the names.
Expression JsonGrammar::other_characters(const Names& names, int32_t first, int32_t last, size_t offset) {
  ByteSet ascii = plain_ascii(), taken;
  ExpressionList wide;
  uint32_t begin = kWide.first;
  for (int32_t i = first; i < last; ++i) {
    size_t bytes = 0;
    const auto c = static_cast<uint32_t>(names.character(i, offset, &bytes));
    if (c < kWide.first) {
      taken.add(static_cast<int>(c));
      continue;
    }
    const CharacterRange between = {begin, c - 1};
    if (begin < c) grammar_.append(&wide, grammar_.character(&between, 1));
    begin = c + 1;
  }
  ByteSet left;
  for (int byte = 0; byte < 128; ++byte)
    if (ascii.has(byte) && !taken.has(byte)) left.add(byte);
  const CharacterRange rest = {begin, kWide.last};
  if (begin <= kWide.last)
    grammar_.append(&wide, begin == kWide.first ? wide_character() : grammar_.character(&rest, 1));
  if (!left.empty()) grammar_.append(&wide, grammar_.byte(left));
  return grammar_.choice(wide);
}

Expression JsonGrammar::integer() {
  Grammar& g = grammar_;
  const Expression first = g.byte(ByteSet().add_range('1', '9'));
  return g.choice(g.text("0"), add_sequence(g, {g.optional(g.text("-")), first, g.repeat(g.byte(digits()), 0, 17)}));
}

/// As Python's repr spells a float: a point with digits on both sides, or one digit before it and a small e with a sign
/// and two digits. Which of the two it is, and zeros at the end of a fraction, are the model's choice: a number that it
/// began must not be led to another one.
Expression JsonGrammar::number() {
  Grammar& g = grammar_;
  const Expression digit = g.byte(digits());
  const Expression first = g.byte(ByteSet().add_range('1', '9'));
  const Expression fraction = g.optional(g.sequence(g.text("."), g.repeat(digit, 1, 16)));
  const Expression whole = g.choice(g.text("0"), g.sequence(first, g.repeat(digit, 0, 15)));
  const Expression exponent = add_sequence(g, {g.text("e"), add_set(g, "+-"), g.repeat(digit, 2, 2)});
  const Expression plain = g.sequence(whole, fraction), scaled = add_sequence(g, {first, fraction, exponent});
  return add_sequence(g, {g.optional(g.text("-")), g.choice(plain, scaled)});
}

Expression JsonGrammar::boolean() { return grammar_.choice(grammar_.text("true"), grammar_.text("false")); }

Expression JsonGrammar::value() {
  if (value_ != kNoExpression) return value_;
  Grammar& g = grammar_;
  const RuleId rule = g.add_rule();
  value_ = g.rule(rule);
  const Expression member = add_sequence(g, {string(0, kUnbounded), colon(), value_});
  ExpressionList list;
  for (const Expression e : {string(0, kUnbounded), number(), boolean(), null()}) g.append(&list, e);
  g.append(&list, add_sequence(g, {open('{'), this->list(member, 0, kUnbounded, false), close('}')}));
  g.append(&list, add_sequence(g, {open('['), this->list(value_, 0, kUnbounded, false), close(']')}));
  g.define(rule, g.choice(list));
  return value_;
}

/// "", " ", or newlines and what a line begins with.
Expression JsonGrammar::spaces() {
  if (spaces_ != kNoExpression) return spaces_;
  Grammar& g = grammar_;
  const Expression lines = g.sequence(g.repeat(g.text("\n"), 1, 2), g.repeat(add_set(g, " \t"), 0, 20));
  return spaces_ = g.optional(g.choice(g.text(" "), lines));
}

Expression JsonGrammar::token(std::string_view text) {
  return is_free_ ? grammar_.sequence(grammar_.text(text), spaces()) : grammar_.text(text);
}

Expression JsonGrammar::close(char bracket) {
  const Expression end = grammar_.text(bracket == '}' ? "}" : "]");
  return is_free_ ? grammar_.sequence(spaces(), end) : end;
}

Expression JsonGrammar::comma() {
  if (comma_ == kNoExpression) comma_ = token(is_free_ ? "," : ", ");
  return comma_;
}

Expression JsonGrammar::colon() { return token(is_free_ ? ":" : ": "); }

Expression JsonGrammar::list(Expression item, int32_t least, int32_t most, bool has_before) {
  Grammar& g = grammar_;
  const Expression more = g.sequence(comma(), item);
  if (has_before || most == 0) return g.repeat(more, least, most);
  const int32_t most_more = most == kUnbounded ? kUnbounded : most - 1;
  const Expression all = g.sequence(item, g.repeat(more, least > 0 ? least - 1 : 0, most_more));
  return least > 0 ? all : g.optional(all);
}

Expression JsonGrammar::flatten(Expression e) {
  if (e == kNoExpression || grammar_.node(e).depth <= kFlatDepth) return e;
  const RuleId rule = grammar_.add_rule();
  grammar_.define(rule, e);
  return grammar_.rule(rule);
}

}  // namespace ocellus

// JsonGrammar: what any JSON text is made of, each part one expression that all of a grammar share.
#pragma once

#include <string_view>

#include "runtime/branches/constrain/grammar/grammar.h"

namespace ocellus {

/// Spelling of white space: as Python's json.dumps writes it (", " and ": "), so that most of a text is forced; or
/// free, after brackets, colons and commas and before closing brackets: nothing, a space, or one or two newlines with
/// up to 20 spaces and tabs.
enum class JsonSpaces { kDumps, kFree };

class JsonGrammar {
 public:
  JsonGrammar(Grammar* grammar, JsonSpaces spaces) : grammar_(*grammar), is_free_(spaces == JsonSpaces::kFree) {}

  /// One character of a string, escaped or not; never half of a surrogate pair.
  Expression character();
  /// A string of at least `least` and at most `most` characters, counted as code points.
  Expression string(int32_t least, int32_t most);
  /// A string without escapes that is none of the names, which are sorted as bytes and different. They must be free of
  /// control characters, quotes and backslashes. kUnsupported after names of more than 200 characters.
  Expression string_other_than(const std::string_view* names, int32_t count);
  /// At most 18 digits.
  Expression integer();
  /// At most 16 digits before and after the point, or one before it and two in the exponent (7.25e+94), so that it is
  /// finite as a double.
  Expression number();
  Expression boolean();
  Expression null() { return grammar_.text("null"); }
  Expression value();

  Expression open(char bracket) { return token(bracket == '{' ? "{" : "["); }
  Expression close(char bracket);
  Expression comma();
  /// The colon between a member's name, quotes included, and its value.
  Expression colon();
  /// Between least and most items with commas between; `has_before`: the first one has a comma, too.
  Expression list(Expression item, int32_t least, int32_t most, bool has_before);
  /// A rule around an expression that nests deep, else the expression.
  Expression flatten(Expression e);

 private:
  struct Names;
  Expression token(std::string_view text);
  Expression spaces();
  Expression plain_character();
  Expression wide_character();
  Expression plain_rest();
  Expression other_names(const Names& names, int32_t first, int32_t last, size_t offset, int level);
  Expression other_characters(const Names& names, int32_t first, int32_t last, size_t offset);

  Grammar& grammar_;
  bool is_free_;
  // Made when first asked for.
  Expression character_ = kNoExpression, plain_character_ = kNoExpression, wide_character_ = kNoExpression;
  Expression plain_rest_ = kNoExpression, string_ = kNoExpression, spaces_ = kNoExpression, comma_ = kNoExpression;
  Expression value_ = kNoExpression;
};

}  // namespace ocellus

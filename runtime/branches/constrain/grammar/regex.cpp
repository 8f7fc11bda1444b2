#include "runtime/branches/constrain/grammar/regex.h"

#include "runtime/branches/constrain/grammar/character_set.h"
#include "runtime/branches/constrain/grammar/character_writer.h"
#include "runtime/branches/constrain/grammar/regex_escape.h"
#include "runtime/branches/constrain/grammar/text_automata.h"
#include "runtime/branches/constrain/grammar/text_cursor.h"

namespace ocellus {
namespace {

/// Sides of a match that an anchor holds to the text's edges.
struct Anchors {
  bool start = false, end = false;
};

struct Counts {
  int32_t least = 0, most = kUnbounded;
};

bool take_start_anchor(TextCursor* text) { return text->take('^') || text->take("\\A"); }
bool take_end_anchors(TextCursor* text) {
  bool any = false;
  while (text->take('$') || text->take("\\z")) any = true;
  return any;
}

/// Braces that are no count are characters.
bool is_count(const TextCursor& text) {
  const std::string_view rest = text.rest();
  return text.is('{') && rest.size() > 1 && (rest[1] == ',' || (rest[1] >= '0' && rest[1] <= '9'));
}

bool is_look(const TextCursor& text) { return text.is("(?=") || text.is("(?!"); }

/// Goes from a ( past its ); false if there is none.
bool skip_group(TextCursor* text) {
  int open = 0;
  bool in_class = false;
  for (; !text->at_end(); text->skip(1)) {
    if (text->take('\\')) continue;
    if (in_class || text->is('[')) {
      in_class = !text->is(']');
    } else if (text->is('(')) {
      ++open;
    } else if (text->is(')') && --open == 0) {
      text->skip(1);
      return true;
    }
  }
  return false;
}

/// <name>, of which < was taken.
bool take_group_name(TextCursor* text) {
  const size_t begin = text->at();
  while (!text->at_end() && !text->is('>')) {
    const char c = text->rest()[0];
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    if (!is_letter && (!text->is_digit() || text->at() == begin)) return false;
    text->skip(1);
  }
  return text->at() > begin && text->take('>');
}

class RegexReader {
 public:
  RegexReader(std::string_view pattern, const RegexOptions& options, Grammar* grammar)
      : options_(options),
        grammar_(*grammar),
        text_(pattern),
        escape_(options.categories != nullptr ? options.categories : &categories_),
        literal_(options.in_json_string, grammar),
        first_(static_cast<Expression>(grammar->unit_count())),
        has_looks_(pattern.find("(?=") != pattern.npos || pattern.find("(?!") != pattern.npos) {}

  Status read(Expression* out) {
    *out = read_edges({.start = !options_.searches, .end = !options_.searches});
    if (!failed() && !text_.at_end()) fail(text_.at(), ") closes no group; write \\) for the character");
    return status_.ok() ? grammar_.status() : status_;
  }

 private:
  bool failed() const { return !status_.ok() || !grammar_.status().ok(); }
  bool fail(size_t at, const char* sentence, Code code = Code::kBadArgument) {
    if (!failed()) status_ = OCELLUS_FAIL(code, "the regular expression at byte %zu: %s", at, sentence);
    return false;
  }
  bool refuse(size_t at, const char* sentence) { return fail(at, sentence, Code::kUnsupported); }

  /// Alternatives at the edges of the pattern, where anchors may stand; some were met around them.
  Expression read_edges(const Anchors& around) {
    ExpressionList all;
    do grammar_.append(&all, read_edge(around));
    while (!failed() && text_.take('|'));
    return grammar_.choice(all);
  }

  Expression read_edge(Anchors anchors) {
    while (take_start_anchor(&text_)) anchors.start = true;
    TextCursor after = text_;
    if (text_.is('(') && !is_look(text_) && skip_group(&after)) {  // all of the alternative, but for anchors?
      const bool ends = take_end_anchors(&after);
      if (after.at_end() || after.is('|') || after.is(')'))
        return read_edge_group({anchors.start, anchors.end || ends});
    }
    const Expression body = read_sequence(&anchors);
    return add_surroundings(body, anchors);
  }

  Expression read_edge_group(const Anchors& anchors) {
    const size_t begin = text_.at();
    if (!open_group()) return kNoExpression;
    const Expression body = read_edges(anchors);
    close_group(begin);
    take_end_anchors(&text_);
    return body;
  }

  Expression anything() {
    if (anything_ == kNoExpression) {
      set_.clear();
      set_.add(0, kLastCharacter);
      anything_ = grammar_.repeat(write_set(text_.at()), 0, kUnbounded);
    }
    return anything_;
  }

  /// Any text before and after, if the pattern is searched for. Beside lookahead, which sees it, sequences have the
  /// text after themselves.
  Expression add_surroundings(Expression body, const Anchors& anchors) {
    const bool has_after = !anchors.end && !has_looks_;
    if (anchors.start && !has_after) return body;
    ExpressionList parts;
    if (!anchors.start) grammar_.append(&parts, anything());
    grammar_.append(&parts, body);
    if (has_after) grammar_.append(&parts, anything());
    return grammar_.sequence(parts);
  }

  /// Reads lookahead and what follows it up to the end of the alternative.
  Expression read_look(Anchors anchors) {
    const size_t begin = text_.at();
    text_.skip(2);
    const bool is_negative = text_.take('!');
    text_.take('=');
    if (++groups_ > kMaxRegexGroups || ++looks_ > kMaxRegexLooks) refuse(begin, "there are more than 16 lookaheads");
    ExpressionList all;
    do {
      const size_t at = text_.at();
      Anchors edge = {.start = anchors.start, .end = false};
      if (take_start_anchor(&text_) && !edge.start) refuse(at, "^ may only stand where the pattern begins");
      grammar_.append(&all, read_sequence(&edge));
    } while (!failed() && text_.take('|'));
    close_group(begin);
    if (text_.is('*') || text_.is('+') || text_.is('?') || is_count(text_))
      refuse(text_.at(), "lookahead is repeated; remove the quantifier");
    const Expression rest = read_sequence(&anchors);
    return failed() ? kNoExpression : keep_seen(rest, grammar_.choice(all), is_negative);
  }

  /// Keeps the texts that begin as lookahead has it.
  Expression keep_seen(Expression rest, Expression look, bool is_negative) {
    TextAutomata automata(&grammar_, options_.workspace);
    Automaton all, seen, kept;
    status_ = automata.make(rest, first_, &all);
    if (status_.ok()) status_ = automata.make(look, first_, &seen);
    if (status_.ok()) status_ = is_negative ? automata.subtract(all, seen, &kept) : automata.join(all, seen, &kept);
    return status_.ok() ? grammar_.automaton(kept) : kNoExpression;
  }

  /// True before a group, once or not at all, after which the pattern ends; then tells if an anchor follows.
  bool is_last_group(bool* ends) const {
    TextCursor after = text_;
    if (!text_.is('(') || is_look(text_) || !skip_group(&after)) return false;
    if (after.take('?')) after.take('?');
    *ends = take_end_anchors(&after);
    return after.at_end() || after.is('|') || after.is(')');
  }

  Expression read_last_group(const Anchors& anchors) {
    const size_t begin = text_.at();
    if (!open_group()) return kNoExpression;
    ExpressionList all;
    do {
      Anchors edge = anchors;
      grammar_.append(&all, read_sequence(&edge));
    } while (!failed() && text_.take('|'));
    close_group(begin);
    if (text_.take('?')) {
      text_.take('?');
      grammar_.append(&all, anchors.end ? grammar_.text({}) : anything());
    }
    take_end_anchors(&text_);
    return grammar_.choice(all);
  }

  /// Items up to | or ) or the end. `anchors` are given where the pattern ends, too, and set by one at the end;
  /// `start`: the sequence stands at the beginning.
  Expression read_sequence(Anchors* anchors) {
    ExpressionList items;
    const auto add_last = [&](auto read, bool ends) {
      literal_.finish(&items);
      const Anchors here = {.start = anchors->start && items.count == 0, .end = anchors->end || ends};
      grammar_.append(&items, read(here));
      return grammar_.sequence(items);
    };
    while (!failed() && !text_.at_end() && !text_.is('|') && !text_.is(')')) {
      const size_t at = text_.at();
      if (take_start_anchor(&text_)) {
        refuse(at, "^ may only stand where the pattern or an alternative of it begins");
      } else if (take_end_anchors(&text_)) {
        if (anchors == nullptr || !(text_.at_end() || text_.is('|') || text_.is(')')))
          refuse(at, "$ may only stand where the pattern or an alternative of it ends");
        else
          anchors->end = true;
      } else if (bool ends = false; anchors != nullptr && is_look(text_)) {
        return add_last([&](const Anchors& here) { return read_look(here); }, false);
      } else if (anchors != nullptr && has_looks_ && is_last_group(&ends)) {
        return add_last([&](const Anchors& here) { return read_last_group(here); }, ends);
      } else {
        read_item(&items);
      }
    }
    literal_.finish(&items);
    if (anchors != nullptr && has_looks_ && !anchors->end) grammar_.append(&items, anything());
    return grammar_.sequence(items);
  }

  void read_item(ExpressionList* items) {
    Expression item = kNoExpression;
    uint32_t character = 0;
    if (text_.is('(')) {
      literal_.finish(items);
      item = read_group();
    } else if (text_.is('[')) {
      item = read_class();
    } else if (text_.take('.')) {
      item = write_line_character();
    } else {
      item = read_character(&character);
    }
    if (failed()) return;
    Counts counts;
    const bool repeats = read_quantifier(&counts);
    const bool is_literal = item == kNoExpression;
    if (is_literal && !repeats) return literal_.add(character, items);
    literal_.finish(items);
    if (is_literal) item = grammar_.text(WrittenCharacter(character, options_.in_json_string).text());
    grammar_.append(items, repeats ? grammar_.repeat(item, counts.least, counts.most) : item);
  }

  /// An expression for the class of an escape, else a character.
  Expression read_character(uint32_t* character) {
    const size_t at = text_.at();
    if (text_.is('*') || text_.is('+') || text_.is('?') || is_count(text_))
      fail(at, "there is nothing to repeat; put a backslash before it for the character");
    else if (read_one(EscapePlace::kAlone, character))
      return write_set(at);
    return kNoExpression;
  }

  /// True if it is the class of an escape, which stands alone in set_ or is added to it in a class.
  bool read_one(EscapePlace place, uint32_t* character) {
    const size_t at = text_.at();
    if (!text_.is('\\')) {
      if (!text_.take_character(character)) fail(at, "it is not UTF-8");
      return false;
    }
    if (place == EscapePlace::kAlone) set_.clear();
    if (!escape_.read(&text_, place, &set_)) return fail(at, escape_.sentence(), escape_.code());
    *character = escape_.character();
    return escape_.is_set();
  }

  bool read_quantifier(Counts* counts) {
    if (is_count(text_))
      read_counts(counts);
    else if (text_.take('?'))
      counts->most = 1;
    else if (text_.take('+'))
      counts->least = 1;
    else if (!text_.take('*'))
      return false;
    text_.take('?');  // lazy
    if (text_.is('+')) refuse(text_.at(), "possessive quantifiers are not supported; remove the +");
    if (text_.is('*') || text_.is('?') || is_count(text_))
      fail(text_.at(), "a quantifier follows another; put what comes before it into a group (?: )");
    return true;
  }

  void read_counts(Counts* counts) {
    const size_t at = text_.at();
    text_.take('{');
    const bool has_least = text_.take_number(&counts->least);
    counts->most = counts->least;
    if (text_.take(',') && !text_.take_number(&counts->most)) counts->most = kUnbounded;
    if (!has_least || !text_.take('}'))
      fail(at, "a repetition is {n}, {n,} or {n,m}; write \\{ for the character");
    else if (counts->most < counts->least)
      fail(at, "the counts of a repetition are in the wrong order");
    else if (counts->least > kMaxRegexRepeat || (counts->most > kMaxRegexRepeat && counts->most != kUnbounded))
      refuse(at, "a repetition has more than 100000 times; write {n,} for any number");
  }

  bool open_group() {
    const size_t at = text_.at();
    text_.take('(');
    if (++groups_ > kMaxRegexGroups) return refuse(at, "groups nest deeper than 100");
    if (!text_.take('?') || text_.take(':')) return true;
    if (text_.is('=') || text_.is('!'))
      return refuse(at, "lookahead may only stand where what follows it ends the pattern; write alternatives");
    if (text_.is("<=") || text_.is("<!")) return refuse(at, "lookbehind is not supported; write alternatives");
    if (text_.is('>')) return refuse(at, "atomic groups are not supported; write (?: )");
    if (text_.is("P=")) return refuse(at, "back-references are not supported; repeat what the group matches");
    if (!text_.take('<') && !text_.take("P<"))
      return refuse(at, "flags and comments are not supported; for both cases write classes as [aA]");
    return take_group_name(&text_) || fail(at, "a group's name is letters, digits and _, as in (?<name> )");
  }

  void close_group(size_t begin) {
    --groups_;
    if (!failed() && !text_.take(')')) fail(begin, "the group is not closed; write \\( for the character");
  }

  Expression read_group() {
    const size_t begin = text_.at();
    ExpressionList all;
    if (!open_group()) return kNoExpression;
    do grammar_.append(&all, read_sequence(nullptr));
    while (!failed() && text_.take('|'));
    close_group(begin);
    return grammar_.choice(all);
  }

  Expression read_class() {
    const size_t begin = text_.at();
    text_.take('[');
    const bool is_negated = text_.take('^');
    if (text_.is(']')) fail(begin, "a class is empty; write \\] for the character");
    set_.clear();
    escape_.begin_class();
    while (!failed() && !text_.take(']')) {
      if (text_.at_end())
        fail(begin, "the class is not closed; write \\[ for the character");
      else
        read_class_item(is_negated ? EscapePlace::kNegatedClass : EscapePlace::kClass);
    }
    if (escape_.has_opposites()) set_.add(0, kLastCharacter);
    if (is_negated) set_.negate();
    return write_set(begin);
  }

  void read_class_item(EscapePlace place) {
    const size_t at = text_.at();
    uint32_t first = 0, last = 0;
    if (text_.is("[:") || text_.is("[.") || text_.is("[=")) refuse(at, "POSIX classes are not supported; write ranges");
    const bool begins_with_set = read_one(place, &first);
    const bool is_range = text_.is('-') && !text_.is("-]") && text_.rest().size() > 1;
    if (failed() || (begins_with_set && !is_range)) return;
    if (is_range) text_.take('-');
    if (begins_with_set || (is_range && read_one(place, &last)))
      fail(at, "a range has a class for an end; write \\- for the character");
    else if (is_range && last < first)
      fail(at, "the ends of a range are in the wrong order");
    else if (!failed())
      set_.add(first, is_range ? last : first);
  }

  Expression write_set(size_t at) {
    const Expression e = failed() ? kNoExpression : write_character_of(&set_, options_.in_json_string, &grammar_);
    if (set_.is_full()) refuse(at, "a class has more than 1024 ranges of characters");
    return e;
  }

  Expression write_line_character() {
    if (line_character_ == kNoExpression) {
      set_.clear();
      for (const uint32_t end : {0x0Au, 0x0Du, 0x2028u, 0x2029u}) set_.add(end, end);
      set_.negate();
      line_character_ = write_set(text_.at());
    }
    return line_character_;
  }

  const RegexOptions& options_;
  Grammar& grammar_;
  TextCursor text_;
  Status status_;
  int categories_ = 0;  // counts those of a pattern that stands alone
  RegexEscape escape_;
  CharacterSet set_;
  int groups_ = 0;  // open ones
  int looks_ = 0;
  LiteralWriter literal_;   // characters that were read but not appended yet
  const Expression first_;  // no expression of the pattern is below it
  const bool has_looks_;
  Expression line_character_ = kNoExpression, anything_ = kNoExpression;
};

}  // namespace

Status read_regex(std::string_view pattern, const RegexOptions& options, Grammar* grammar, Expression* out) {
  *out = kNoExpression;
  if (pattern.size() > kMaxRegexBytes)
    return OCELLUS_FAIL(Code::kUnsupported, "the regular expression has %zu bytes, more than %zu", pattern.size(),
                        kMaxRegexBytes);
  return RegexReader(pattern, options, grammar).read(out);
}

}  // namespace ocellus

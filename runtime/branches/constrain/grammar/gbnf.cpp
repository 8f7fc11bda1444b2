#include "runtime/branches/constrain/grammar/gbnf.h"

#include <algorithm>

#include "quant/name_table.h"
#include "runtime/branches/constrain/grammar/character_set.h"
#include "runtime/branches/constrain/grammar/character_writer.h"
#include "runtime/branches/constrain/grammar/text_cursor.h"

namespace ocellus {
namespace {

/// Every 16th level of groups is a rule of its own, so that the depth of expressions stays small.
constexpr int kGroupsOfRule = 16;

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/// Rules by name: lists in the grammar's memory, whose cells hold three numbers of each rule: where its name stands
/// first, the name's bytes, and the rule.
class RuleNames {
 public:
  RuleNames(std::string_view text, Grammar* grammar) : text_(text), grammar_(*grammar) {}

  RuleId find(std::string_view name) const {
    for (int32_t c = lists_[list_of(name)].first; c != kNoExpression && grammar_.spend(1); c = next_rule(c))
      if (name_at(c) == name) return id_at(c);
    return kNoRule;
  }

  /// The name is a part of the text.
  RuleId find_or_add(std::string_view name) {
    RuleId id = find(name);
    if (id != kNoRule) return id;
    id = grammar_.add_rule();
    ExpressionList* const list = &lists_[list_of(name)];
    grammar_.append(list, static_cast<int32_t>(name.data() - text_.data()));
    grammar_.append(list, static_cast<int32_t>(name.size()));
    grammar_.append(list, id);
    ++count_;
    return id;
  }

  int32_t count() const { return count_; }

  /// The name that was used first of those without a definition; empty if there is none.
  std::string_view find_undefined() const {
    std::string_view found;
    for (const ExpressionList& list : lists_) {
      for (int32_t c = list.first; c != kNoExpression; c = next_rule(c)) {
        const bool is_earlier = found.empty() || name_at(c).data() < found.data();
        if (is_earlier && !grammar_.is_defined(id_at(c))) found = name_at(c);
      }
    }
    return found;
  }

 private:
  static constexpr uint64_t kLists = 1024;
  static uint64_t list_of(std::string_view name) { return hash_name(name) % kLists; }
  std::string_view name_at(int32_t c) const {
    const Grammar::Cell& begin = grammar_.cell(c);
    return {text_.data() + begin.item, static_cast<size_t>(grammar_.cell(begin.next).item)};
  }
  int32_t id_cell(int32_t c) const { return grammar_.cell(grammar_.cell(c).next).next; }
  RuleId id_at(int32_t c) const { return grammar_.cell(id_cell(c)).item; }
  int32_t next_rule(int32_t c) const { return grammar_.cell(id_cell(c)).next; }

  std::string_view text_;
  Grammar& grammar_;
  ExpressionList lists_[kLists];
  int32_t count_ = 0;
};

class GbnfReader {
 public:
  GbnfReader(std::string_view text, const TokenTrie* tokens, Grammar* grammar)
      : grammar_(*grammar),
        tokens_(tokens),
        whole_(text),
        text_(text),
        names_(text, grammar),
        literal_(false, grammar) {}

  Status read(Expression* out) {
    skip_space(true);
    while (!failed() && !text_.at_end()) read_rule();
    if (!failed()) *out = find_root();
    return status_.ok() ? grammar_.status() : status_;
  }

 private:
  bool failed() const { return !status_.ok() || !grammar_.status().ok(); }

  bool fail(size_t at, const char* sentence, Code code = Code::kBadArgument, std::string_view name = "") {
    const TextPlace place = place_of(whole_, at);
    if (!failed())
      status_ = OCELLUS_FAIL(code, "the grammar, line %d, column %d: %s%.*s", place.line, place.column, sentence,
                             static_cast<int>(std::min<size_t>(name.size(), 100)), name.data());
    return false;
  }

  Expression find_root() {
    const std::string_view undefined = names_.find_undefined();
    const RuleId root = names_.find("root");
    if (!undefined.empty())
      fail(static_cast<size_t>(undefined.data() - whole_.data()), "there is no definition of the rule ",
           Code::kBadArgument, undefined);
    else if (root == kNoRule)
      fail(whole_.size(), "there is no rule named root, with which texts begin");
    return failed() ? kNoExpression : grammar_.rule(root);
  }

  /// Spaces and comments, and line ends where a rule goes on after them.
  void skip_space(bool over_lines) {
    for (bool in_comment = false; !text_.at_end(); text_.skip(1)) {
      const bool is_line_end = text_.is('\n') || text_.is('\r');
      if (is_line_end && !over_lines) return;
      in_comment = !is_line_end && (in_comment || text_.is('#'));
      if (!in_comment && !is_line_end && !text_.is(' ') && !text_.is('\t')) return;
    }
  }

  void read_rule() {
    RuleId id = kNoRule;
    if (!read_name(&id)) return void(fail(text_.at(), "a rule begins with its name: a-z, A-Z, 0-9, - and _"));
    skip_space(false);
    if (!text_.take("::=")) return void(fail(text_.at(), "::= must stand after the name of a rule"));
    skip_space(true);
    grammar_.define(id, read_alternatives());
    const bool ends = text_.at_end() || text_.is('\n') || text_.is('\r');
    if (!ends) fail(text_.at(), "the rule cannot go on with this character; a new rule needs a new line");
    skip_space(true);
  }

  bool read_name(RuleId* id) {
    const std::string_view rest = text_.rest();
    const auto end = std::find_if_not(rest.begin(), rest.end(), is_name_character);
    const std::string_view name = rest.substr(0, static_cast<size_t>(end - rest.begin()));
    if (name.empty()) return false;
    *id = names_.find_or_add(name);
    if (names_.count() > kMaxGbnfRules) fail(text_.at(), "the grammar has more than 4096 rules", Code::kUnsupported);
    text_.skip(name.size());
    return true;
  }

  Expression read_alternatives() {
    ExpressionList all;
    for (bool more = true; more && !failed();) {
      grammar_.append(&all, read_sequence());
      more = text_.take('|');
      if (more) skip_space(true);
    }
    return grammar_.choice(all);
  }

  Expression read_sequence() {
    ExpressionList items;
    Expression item = kNoExpression;
    while (!failed() && read_item(&item)) {
      skip_space(groups_ > 0);
      while (!failed() && read_quantifier(&item)) skip_space(groups_ > 0);
      grammar_.append(&items, item);
    }
    return grammar_.sequence(items);
  }

  /// False where no item begins.
  bool read_item(Expression* item) {
    const size_t at = text_.at();
    RuleId id = kNoRule;
    if (text_.take('"'))
      *item = read_literal(at);
    else if (text_.take('['))
      *item = read_class(at);
    else if (text_.take('('))
      *item = read_group(at);
    else if (text_.take('.'))
      *item = write_any();
    else if (read_name(&id))
      *item = grammar_.rule(id);
    else if (text_.is('<') || text_.is('!'))
      *item = read_token(at);
    else if (text_.is('*') || text_.is('+') || text_.is('?') || text_.is('{'))
      return fail(at, "there is nothing to repeat; write a literal, a class, a rule or a group before it");
    else
      return false;
    return true;
  }

  bool read_quantifier(Expression* item) {
    int32_t least = 0, most = kUnbounded;
    if (text_.take('?'))
      most = 1;
    else if (text_.take('+'))
      least = 1;
    else if (text_.is('{'))
      read_counts(&least, &most);
    else if (!text_.take('*'))
      return false;
    if (!failed()) *item = grammar_.repeat(*item, least, most);
    return true;
  }

  void read_counts(int32_t* least, int32_t* most) {
    const size_t at = text_.at();
    text_.take('{');
    skip_space(groups_ > 0);
    const bool has_least = text_.take_number(least);
    *most = *least;
    skip_space(groups_ > 0);
    if (text_.take(',')) {
      skip_space(groups_ > 0);
      if (!text_.take_number(most)) *most = kUnbounded;
      skip_space(groups_ > 0);
    }
    if (!has_least || !text_.take('}'))
      fail(at, "a repetition is {n}, {n,} or {n,m}");
    else if (*most < *least)
      fail(at, "the counts of a repetition are in the wrong order");
    else if (*least > kMaxGbnfRepeat || (*most > kMaxGbnfRepeat && *most != kUnbounded))
      fail(at, "a repetition has more than 100000 times; write {n,} for any number", Code::kUnsupported);
  }

  Expression read_group(size_t begin) {
    if (++groups_ > kMaxGbnfGroups) fail(begin, "groups nest deeper than 200; make rules of them", Code::kUnsupported);
    skip_space(true);
    const Expression body = failed() ? kNoExpression : read_alternatives();
    if (!failed() && !text_.take(')')) fail(begin, "the group is not closed by )");
    if (--groups_ % kGroupsOfRule != 0 || failed()) return body;
    const RuleId id = grammar_.add_rule();
    grammar_.define(id, body);
    return grammar_.rule(id);
  }

  /// <text>, <[number]>, or any other token after a !.
  Expression read_token(size_t begin) {
    const bool is_negated = text_.take('!');
    const std::string_view rest = text_.rest();
    const std::string_view text = rest.substr(0, std::min(rest.find('>'), rest.size() - 1) + 1);
    int32_t token = kNoToken;
    if (!text_.take('<') || !text.ends_with('>') || text.find('\n') != std::string_view::npos) {
      fail(begin, "a token is <its text> or <[its number]>, any other one !<...>");
    } else if (tokens_ == nullptr) {
      fail(begin, "tokens need a model's vocabulary", Code::kUnsupported);
    } else if (text_.take('[')) {
      const bool is_number = text_.take_number(&token);
      if (!is_number || !text_.take("]>")) fail(begin, "a token's number is written as <[1000]>");
    } else {
      token = tokens_->tokenizer().find(text);
      text_.skip(text.size() - 1);
      if (token == kNoToken) fail(begin, "the vocabulary has no token of this text; write it as a literal");
    }
    if (!failed() && token >= tokens_->tokenizer().token_count()) fail(begin, "the vocabulary has fewer tokens");
    if (!failed() && !is_negated && !tokens_->may_name(token))
      fail(begin, "the token ends an answer or has no text, so that no grammar can ask for it; end the rule instead");
    return failed() ? kNoExpression : add_token_code(grammar_, token, is_negated);
  }

  Expression read_literal(size_t begin) {
    ExpressionList parts;
    while (!failed() && !text_.take('"')) {
      uint32_t character = 0;
      if (text_.at_end())
        fail(begin, "the literal is not closed by \"");
      else if (read_character(&character))
        literal_.add(character, &parts);
    }
    literal_.finish(&parts);
    return grammar_.sequence(parts);
  }

  Expression read_class(size_t begin) {
    const bool is_negated = text_.take('^');
    if (text_.is(']')) fail(begin, "a class is empty; write \\] for the character");
    set_.clear();
    while (!failed() && !text_.take(']')) {
      if (text_.at_end())
        fail(begin, "the class is not closed by ]");
      else
        read_range();
    }
    if (is_negated) {
      set_.add(0, 0);
      set_.negate();
    }
    const Expression e = failed() ? kNoExpression : write_character_of(&set_, false, &grammar_);
    if (set_.is_full()) fail(begin, "a class has more than 1024 ranges of characters", Code::kUnsupported);
    return e;
  }

  void read_range() {
    const size_t at = text_.at();
    uint32_t first = 0, last = 0;
    if (!read_character(&first)) return;
    last = first;
    if (text_.is('-') && !text_.is("-]") && text_.rest().size() > 1) {
      text_.take('-');
      if (!read_character(&last)) return;
    }
    if (last < first)
      fail(at, "the ends of a range are in the wrong order");
    else
      set_.add(first, last);
  }

  bool read_character(uint32_t* character) {
    const size_t at = text_.at();
    if (!text_.take('\\')) return text_.take_character(character) || fail(at, "it is not UTF-8");
    if (text_.at_end()) return fail(at, "the text ends after a backslash");
    const char letter = text_.rest()[0];
    text_.skip(1);
    const size_t digits = letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
    if (digits > 0) {
      if (!text_.take_hexadecimal(digits, character))
        return fail(at, "\\x, \\u and \\U need 2, 4 and 8 hexadecimal digits");
      const bool is_surrogate = *character >= 0xD800 && *character <= 0xDFFF;
      return (*character <= kLastCharacter && !is_surrogate) || fail(at, "it is no character of Unicode");
    }
    *character = static_cast<uint8_t>(letter == 'n' ? '\n' : letter == 'r' ? '\r' : letter == 't' ? '\t' : letter);
    return std::string_view("nrt\\\"[]-").find(letter) != std::string_view::npos ||
           fail(at, "the escapes are \\n \\r \\t \\\\ \\\" \\[ \\] \\- \\xHH \\uHHHH \\UHHHHHHHH");
  }

  Expression write_any() {
    if (any_ == kNoExpression) {
      set_.clear();
      set_.add(1, kLastCharacter);
      any_ = write_character_of(&set_, false, &grammar_);
    }
    return any_;
  }

  Grammar& grammar_;
  const TokenTrie* tokens_;
  std::string_view whole_;
  TextCursor text_;
  Status status_;
  RuleNames names_;
  LiteralWriter literal_;
  CharacterSet set_;
  int groups_ = 0;  // open ones
  Expression any_ = kNoExpression;
};

}  // namespace

Status read_gbnf(std::string_view text, const TokenTrie* tokens, Grammar* grammar, Expression* out) {
  *out = kNoExpression;
  if (text.size() > kMaxGbnfBytes)
    return OCELLUS_FAIL(Code::kUnsupported, "the grammar has %zu bytes, more than %zu", text.size(), kMaxGbnfBytes);
  return GbnfReader(text, tokens, grammar).read(out);
}

}  // namespace ocellus

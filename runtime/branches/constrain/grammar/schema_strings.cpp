// Strings: minLength, maxLength, pattern, format.
#include <algorithm>

#include "runtime/branches/constrain/grammar/regex.h"
#include "runtime/branches/constrain/grammar/schema_formats.h"
#include "runtime/branches/constrain/grammar/schema_reader.h"
#include "runtime/branches/constrain/grammar/text_automata.h"

namespace ocellus {
namespace {

/// Characters above minLength that are counted beside a pattern: each has states of its own.
constexpr int32_t kMostCounted = 256;

/// Characters that the texts of an expression have, which is not spelled as in JSON.
struct Lengths {
  int64_t least = 0, most = kUnbounded;
};

int64_t count_characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
}

int64_t multiply(int64_t a, int64_t b) { return a == 0 || b == 0 ? 0 : a >= kUnbounded / b ? kUnbounded : a * b; }

Lengths find_lengths(const Grammar& g, Expression e) {
  if (e == kNoExpression || !g.spend(4)) return {};
  const Grammar::Node& node = g.node(e);
  switch (node.kind) {
    case ExpressionKind::kText: {
      const int64_t count = count_characters(g.text_of(node));
      return {count, count};
    }
    case ExpressionKind::kByte: {
      const bool continues = ByteSet(g.bytes_of(node)).keep(ByteSet().add_range(0x80, 0xBF)) == g.bytes_of(node);
      return continues ? Lengths{0, 0} : Lengths{1, 1};
    }
    case ExpressionKind::kSequence: {
      Lengths all = {0, 0};
      for (int32_t c = node.a; c != kNoExpression; c = g.cell(c).next) {
        const Lengths item = find_lengths(g, g.cell(c).item);
        all = {std::min<int64_t>(all.least + item.least, kUnbounded),
               std::min<int64_t>(all.most + item.most, kUnbounded)};
      }
      return all;
    }
    case ExpressionKind::kChoice: {
      Lengths all = {kUnbounded, 0};
      for (int32_t c = node.a; c != kNoExpression; c = g.cell(c).next) {
        const Lengths item = find_lengths(g, g.cell(c).item);
        all = {std::min(all.least, item.least), std::max(all.most, item.most)};
      }
      return all;
    }
    case ExpressionKind::kRepeat: {
      const Lengths item = find_lengths(g, node.a);
      return {multiply(item.least, node.b), multiply(item.most, node.c)};
    }
    case ExpressionKind::kNever:
    case ExpressionKind::kRule:
    case ExpressionKind::kAutomaton: break;
  }
  return {};
}

/// Reads a pattern or a format.
Status read_form(SchemaReader& reader, int32_t form, const FormatOptions& options, HostView<std::byte> workspace,
                 Expression* out) {
  const std::string_view text = reader.node(form).text;
  const RegexOptions regex = {.in_json_string = options.in_json_string,
                              .searches = true,
                              .categories = reader.categories(),
                              .workspace = workspace};
  const Status status = reader.node(form).name == "pattern" ? read_regex(text, regex, &reader.grammar(), out)
                                                            : add_format(text, options, &reader.grammar(), out);
  return status.ok() ? status : prefix_failure(status, reader.document().path(form).text);
}

Status add_form(StringRules* rules, int32_t index, SchemaReader& reader) {
  if (reader.node(index).kind != JsonKind::kString) return reader.reject(index, "this must be a string");
  if (reader.is_harmless(index)) return {};
  const auto is_same = [&](int32_t other) {
    return reader.node(other).name == reader.node(index).name && reader.node(other).text == reader.node(index).text;
  };
  if (std::any_of(rules->forms, rules->forms + rules->form_count, is_same)) return {};
  if (rules->form_count == StringRules::kMaxForms)
    return reader.refuse(index, "more than 16 patterns and formats hold for one string: write fewer");
  rules->forms[rules->form_count++] = index;
  return {};
}

/// One form with lengths that needs no counting of its own: all its strings have them, or it is one repeated character.
/// *out stays as it is if it is none.
Status add_counted(SchemaReader& reader, const StringRules& rules, Expression* out) {
  Grammar& g = reader.grammar();
  Expression plain = kNoExpression;
  OCELLUS_TRY(read_form(reader, rules.forms[0], {}, reader.memory().rest(), &plain));
  const Lengths lengths = find_lengths(g, plain);
  const bool fits = lengths.least >= rules.lengths.least && lengths.most <= rules.lengths.most;
  const bool repeats = g.node(plain).kind == ExpressionKind::kRepeat;
  const Lengths item = repeats ? find_lengths(g, g.node(plain).a) : Lengths();
  if (!fits && !(item.least == 1 && item.most == 1)) return g.status();
  OCELLUS_TRY(read_form(reader, rules.forms[0], {.in_json_string = true}, reader.memory().rest(), out));
  if (fits) return g.status();
  const Grammar::Node repeat = g.node(*out);
  const int32_t least = std::max(repeat.b, rules.lengths.least), most = std::min(repeat.c, rules.lengths.most);
  if (least > most) return reader.no_value(rules.forms[0], "its lengths and those beside it exclude each other");
  *out = g.repeat(repeat.a, least, most);
  return g.status();
}

Status add_joined(SchemaReader& reader, const StringRules& rules, Expression* out) {
  TextAutomata automata(&reader.grammar(), reader.memory().rest());
  Automaton strings, spelled;
  OCELLUS_TRY(make_strings(reader, rules, &automata, &strings));
  const Status status = automata.spell_json(strings, &spelled);
  if (!status.ok()) return prefix_failure(status, reader.document().path(rules.forms[0]).text);
  if (spelled.state_count == 0)
    return reader.no_value(rules.forms[0], "the conditions on the string exclude each other");
  *out = reader.grammar().automaton(spelled);
  return reader.grammar().status();
}

}  // namespace

Status find_string_rules(SchemaReader& reader, const SchemaParts& parts, StringRules* out) {
  OCELLUS_TRY(reader.read_counts(parts, "minLength", "maxLength", &out->lengths));
  for (const SchemaPart& part : parts) {
    for (const char* keyword : {"pattern", "format"}) {
      const int32_t index = reader.document().find(part.node, keyword);
      if (index != kNoJson) OCELLUS_TRY(add_form(out, index, reader));
    }
  }
  return {};
}

Status make_pattern(SchemaReader& reader, std::string_view pattern, int32_t place, TextAutomata* automata,
                    Automaton* out) {
  const auto first = static_cast<Expression>(reader.grammar().unit_count());
  Expression e = kNoExpression;
  const HostView<std::byte> workspace = automata->rest();
  const RegexOptions options = {.searches = true, .categories = reader.categories(), .workspace = workspace};
  Status status = read_regex(pattern, options, &reader.grammar(), &e);
  if (status.ok()) status = automata->make(e, first, out);
  return status.ok() ? status : prefix_failure(status, reader.document().path(place).text);
}

Status make_strings(SchemaReader& reader, const StringRules& rules, TextAutomata* automata, Automaton* out) {
  Grammar& g = reader.grammar();
  const auto first = static_cast<Expression>(g.unit_count());
  Expression forms[StringRules::kMaxForms] = {};
  const FormatOptions options = {.is_counted = rules.lengths.most != kUnbounded};
  for (int32_t i = 0; i < rules.form_count; ++i)
    OCELLUS_TRY(read_form(reader, rules.forms[i], options, automata->rest(), &forms[i]));
  if (rules.form_count == 0) OCELLUS_TRY(read_regex("", {.searches = true}, &g, &forms[0]));
  OCELLUS_TRY(g.status());
  const int32_t place = rules.form_count > 0                  ? rules.forms[0]
                        : rules.lengths.least_node != kNoJson ? rules.lengths.least_node
                                                              : rules.lengths.most_node;
  const auto at_place = [&](Status status) {
    return status.ok() ? status : prefix_failure(status, reader.document().path(place).text);
  };
  OCELLUS_TRY(at_place(automata->make(forms[0], first, out)));
  for (int32_t i = 1; i < rules.form_count; ++i) {
    const Automaton before = *out;
    Automaton form;
    OCELLUS_TRY(at_place(automata->make(forms[i], first, &form)));
    OCELLUS_TRY(at_place(automata->join(before, form, out)));
  }
  if (!rules.has_lengths()) return {};
  const Automaton all = *out;
  const int32_t least = rules.lengths.least, most = rules.lengths.most;
  const bool is_long = most != kUnbounded && most - least > kMostCounted;
  return at_place(automata->limit(all, least, is_long ? least + kMostCounted : most, out));
}

Status add_string_type(SchemaReader& reader, const SchemaParts& parts, Expression* out) {
  Grammar& g = reader.grammar();
  StringRules rules;
  OCELLUS_TRY(find_string_rules(reader, parts, &rules));
  const CountRange& lengths = rules.lengths;
  if (rules.form_count == 0) return *out = reader.json().string(lengths.least, lengths.most), g.status();
  Expression e = kNoExpression;
  if (rules.form_count == 1 && !rules.has_lengths())
    OCELLUS_TRY(read_form(reader, rules.forms[0], {.in_json_string = true}, reader.memory().rest(), &e));
  if (rules.form_count == 1 && rules.has_lengths()) OCELLUS_TRY(add_counted(reader, rules, &e));
  OCELLUS_TRY(g.status());
  if (e == kNoExpression) OCELLUS_TRY(add_joined(reader, rules, &e));
  if (e != kNoExpression && g.node(e).kind == ExpressionKind::kNever)
    return reader.no_value(rules.forms[0], "no string matches");
  *out = g.sequence(g.text("\""), g.sequence(e, g.text("\"")));
  return g.status();
}

}  // namespace ocellus

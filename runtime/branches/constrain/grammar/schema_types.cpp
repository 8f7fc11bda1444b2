// Types of the values at a place, and their numbers.
#include <numeric>

#include "runtime/branches/constrain/grammar/decimal.h"
#include "runtime/branches/constrain/grammar/number_range.h"
#include "runtime/branches/constrain/grammar/regex.h"
#include "runtime/branches/constrain/grammar/schema_formats.h"
#include "runtime/branches/constrain/grammar/schema_reader.h"
#include "runtime/branches/constrain/grammar/text_automata.h"

namespace ocellus {
namespace {

/// Numbers whose multiples are exact as doubles, and how multiples are spelled.
struct FractionOf {
  std::string_view of;
  std::string_view pattern;
};
constexpr uint64_t kMostMultiple = 1 << 20;
constexpr FractionOf kFractions[] = {{"0.5", "-?\\d+(?:\\.[05]0*)?"}, {"0.25", "-?\\d+(?:\\.(?:0|25|5|75)0*)?"}};

/// Multiples that the numbers of the parts must be.
struct Multiples {
  int32_t place = kNoJson;            // one of the keywords
  int32_t whole = 1;                  // factor of the integers
  std::string_view fraction_pattern;  // spelling of numbers that may be none; empty: any
  bool are_integers = false;
};

/// Bounds that no number that is written comes near are none.
void leave_far_bounds(NumberRange* range) {
  const auto is_far = [](const Decimal& bound) { return count_whole_digits(bound) > kExactDigits; };
  if (range->low.at.is_negative && is_far(range->low.at)) range->has_low = false;
  if (!range->high.at.is_negative && is_far(range->high.at)) range->has_high = false;
}

/// Least common multiple; 0 if it is too large.
int32_t join_multiples(int32_t a, int64_t b) {
  constexpr int64_t kMost = 256;  // each remainder is a state
  const int64_t all = int64_t{a} / std::gcd(int64_t{a}, b) * b;
  return all <= kMost ? static_cast<int32_t>(all) : 0;
}

Status read_multiple(SchemaReader& reader, int32_t index, Multiples* out) {
  const JsonNode& of = reader.node(index);
  Decimal value;
  const bool is_number = of.kind == JsonKind::kNumber;
  const DecimalFit fit = is_number ? read_decimal(of.text, &value) : DecimalFit::kFits;
  if (!is_number || value.is_negative || (fit == DecimalFit::kFits && value.is_zero()))
    return reader.reject(index, "this is a number above 0");
  out->place = index;
  for (const FractionOf& fraction : kFractions)
    if (of.text == fraction.of) return out->fraction_pattern = fraction.pattern, Status();
  out->are_integers = true;
  out->whole = fit == DecimalFit::kFits && value.is_integer() && value.whole <= kMostMultiple
                   ? join_multiples(out->whole, static_cast<int64_t>(value.whole))
                   : 0;
  return out->whole > 0 ? Status()
                        : reader.refuse(index, "write a whole number, up to 256 with all others together, 0.5 or 0.25");
}

/// The numbers of an expression that are such multiples.
Status keep_multiples(SchemaReader& reader, const Multiples& multiples, Expression first, Expression* e) {
  Grammar& g = reader.grammar();
  Expression fractions = kNoExpression;
  if (!multiples.are_integers) OCELLUS_TRY(read_regex(multiples.fraction_pattern, {}, &g, &fractions));
  TextAutomata automata(&g, reader.memory().rest());
  Automaton numbers, right, kept;
  OCELLUS_TRY(automata.make(*e, first, &numbers));
  OCELLUS_TRY(multiples.are_integers ? automata.multiples(multiples.whole, &right)
                                     : automata.make(fractions, first, &right));
  OCELLUS_TRY(automata.join(numbers, right, &kept));
  if (kept.state_count == 0) return reader.no_value(multiples.place, "no number is such a multiple");
  *e = g.automaton(kept);
  return g.status();
}

}  // namespace

Status SchemaReader::read_type(int32_t index, uint8_t* types) {
  const uint8_t type = node(index).kind == JsonKind::kString ? find_type(node(index).text) : uint8_t{kNoType};
  if (type == kNoType)
    return reject(index, "this is no type: write string, number, integer, boolean, null, array or object");
  *types = static_cast<uint8_t>(*types | type);
  return {};
}

Status SchemaReader::read_types(const SchemaParts& parts, uint8_t* types) {
  constexpr int64_t kKeywordSteps = 32;  // they are read twice
  uint8_t stated = kAllTypes, meant = kNoType;
  bool is_stated = false;
  for (const SchemaPart& part : parts) {
    if (!grammar_.spend(kKeywordSteps * node(part.node).count)) return grammar_.status();
    for (int32_t m = node(part.node).first; m != kNoJson; m = node(m).next) {
      const Keyword keyword = find_keyword(node(m).name);
      const bool is_condition = keyword.role == KeywordRole::kRule || keyword.role == KeywordRole::kRefused;
      if (is_condition && !is_harmless(m)) meant = static_cast<uint8_t>(meant | keyword.types);
      if (keyword.name != "type") continue;
      is_stated = true;
      uint8_t all = kNoType;
      if (node(m).kind != JsonKind::kArray) OCELLUS_TRY(read_type(m, &all));
      for (int32_t i = node(m).first; i != kNoJson; i = node(i).next) OCELLUS_TRY(read_type(i, &all));
      stated = static_cast<uint8_t>(stated & all);
    }
  }
  *types = is_stated ? stated : meant != kNoType ? meant : uint8_t{kAllTypes};
  return *types == kNoType ? no_value(parts.at[0].node, "no type is left") : Status();
}

Status SchemaReader::refuse_keywords(const SchemaParts& parts, uint8_t types) {
  for (const SchemaPart& part : parts) {
    for (int32_t m = node(part.node).first; m != kNoJson; m = node(m).next) {
      const Keyword keyword = find_keyword(node(m).name);
      if (keyword.role == KeywordRole::kRefused && (keyword.types & types) != 0 && !is_harmless(m))
        return OCELLUS_FAIL(Code::kUnsupported, "%s: the keyword is not supported: %s", document_.path(m).text,
                            keyword.instead);
    }
  }
  return {};
}

bool SchemaReader::is_harmless(int32_t keyword) const {
  const JsonNode& condition = node(keyword);
  const std::string_view name = condition.name;
  const auto find = [&](std::string_view beside) { return document_.find(condition.parent, beside); };
  const auto has = [&](std::string_view beside) { return find(beside) != kNoJson; };
  const auto has_list = [&] { return has("items") && node(find("items")).kind == JsonKind::kArray; };
  if (name == "format") return condition.kind == JsonKind::kString && !is_format(condition.text);
  if (name == "uniqueItems" || name == "nullable" || name == "not" || name.starts_with("exclusive"))
    return condition.kind == JsonKind::kFalse;
  if (name == "propertyNames") return is_true(keyword);
  if (name == "patternProperties" || name.starts_with("depend"))
    return condition.kind == JsonKind::kObject && condition.count == 0;
  if (name == "additionalItems") return !has_list();
  if (name == "unevaluatedItems") return is_true(keyword) || (has("items") && !has_list());
  if (name == "unevaluatedProperties") return is_true(keyword) || has("additionalProperties");
  if (name == "contains") return has("minContains") && node(find("minContains")).text == "0" && !has("maxContains");
  if (name == "minContains" || name == "maxContains") return !has("contains") || is_harmless(find("contains"));
  if (name == "if") return !has("then") && !has("else");
  if (name == "then" || name == "else") return !has("if");
  return false;
}

Status SchemaReader::add_types(const SchemaParts& parts, Expression* out) {
  uint8_t types = kNoType;
  OCELLUS_TRY(read_types(parts, &types));
  OCELLUS_TRY(refuse_keywords(parts, types));
  bool has_constants = false;
  OCELLUS_TRY(add_constants(*this, parts, types, &has_constants, out));
  if (has_constants) return {};
  ExpressionList list;
  Expression e = kNoExpression;
  const auto append = [&](Status status) {
    if (status.ok()) grammar_.append(&list, e);
    return status;
  };
  if ((types & kStringType) != 0) OCELLUS_TRY(append(add_string_type(*this, parts, &e)));
  if ((types & kNumberTypes) != 0) OCELLUS_TRY(append(add_number_type(*this, parts, (types & kFractionType) != 0, &e)));
  if ((types & kBooleanType) != 0) grammar_.append(&list, json_.boolean());
  if ((types & kNullType) != 0) grammar_.append(&list, json_.null());
  if ((types & kObjectType) != 0) OCELLUS_TRY(append(add_object_type(*this, parts, &e)));
  if ((types & kArrayType) != 0) OCELLUS_TRY(append(add_array_type(*this, parts, &e)));
  *out = grammar_.choice(list);
  return grammar_.status();
}

Status add_number_type(SchemaReader& reader, const SchemaParts& parts, bool has_fractions, Expression* out) {
  Grammar& g = reader.grammar();
  const auto first = static_cast<Expression>(g.unit_count());
  NumberRange range;
  Multiples multiples;
  int32_t bound = kNoJson;
  OCELLUS_TRY(read_number_range(reader, parts, &range, &bound));
  for (const SchemaPart& part : parts) {
    const int32_t of = reader.document().find(part.node, "multipleOf");
    if (of != kNoJson) OCELLUS_TRY(read_multiple(reader, of, &multiples));
  }
  has_fractions = has_fractions && !multiples.are_integers;
  if (has_fractions) leave_far_bounds(&range);
  if (bound == kNoJson)
    *out = has_fractions ? reader.json().number() : reader.json().integer();
  else if (has_fractions && !fits_numbers(range))
    return reader.refuse(bound, "bounds of a number have at most 15 digits, zeros before the point counted");
  else
    *out = has_fractions ? add_numbers(g, range) : add_integers(g, range);
  OCELLUS_TRY(g.status());
  if (g.node(*out).kind == ExpressionKind::kNever) return reader.no_value(bound, "the bounds leave no number");
  const bool matters = multiples.are_integers ? multiples.whole > 1 : has_fractions && multiples.place != kNoJson;
  return matters ? keep_multiples(reader, multiples, first, out) : g.status();
}

}  // namespace ocellus

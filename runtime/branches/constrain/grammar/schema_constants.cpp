// enum and const, and bounds of numbers.
#include <algorithm>

#include "runtime/branches/constrain/grammar/decimal.h"
#include "runtime/branches/constrain/grammar/number_range.h"
#include "runtime/branches/constrain/grammar/schema_reader.h"
#include "runtime/branches/constrain/grammar/text_automata.h"

namespace ocellus {
namespace {

/// Maximum of keywords and values that values of enum and const are compared with.
constexpr int64_t kMaxSteps = int64_t{1} << 24;

bool are_equal_numbers(std::string_view a, std::string_view b) {
  Decimal x, y;
  if (read_decimal(a, &x) != DecimalFit::kFits || read_decimal(b, &y) != DecimalFit::kFits) return a == b;
  return x == y;
}

/// Long numbers take as long as many short ones.
int64_t steps_of(std::string_view text) { return static_cast<int64_t>(text.size() / 16); }

/// As JSON Schema compares: numbers by value, objects in any order. Counts the values that it looks at to *steps.
bool are_equal(const JsonDocument& document, int32_t a, int32_t b, int64_t* steps) {
  const JsonNode& x = document.node(a);
  const JsonNode& y = document.node(b);
  *steps += 1 + steps_of(x.text) + steps_of(y.text);
  if (x.kind != y.kind || x.count != y.count) return false;
  if (x.kind == JsonKind::kNumber) return are_equal_numbers(x.text, y.text);
  if (x.kind == JsonKind::kString) return x.text == y.text;
  int32_t other = y.first;
  for (int32_t item = x.first; item != kNoJson; item = document.node(item).next) {
    if (x.kind == JsonKind::kObject) other = document.find(b, document.node(item).name);
    if (other == kNoJson || !are_equal(document, item, other, steps)) return false;
    other = document.node(other).next;
  }
  return true;
}

uint8_t type_of(const JsonNode& node) {
  switch (node.kind) {
    case JsonKind::kNull: return kNullType;
    case JsonKind::kFalse:
    case JsonKind::kTrue: return kBooleanType;
    case JsonKind::kString: return kStringType;
    case JsonKind::kArray: return kArrayType;
    case JsonKind::kObject: return kObjectType;
    case JsonKind::kNumber: break;
  }
  Decimal value;
  const DecimalFit fit = read_decimal(node.text, &value);
  return fit == DecimalFit::kTooFine || (fit == DecimalFit::kFits && !value.is_integer()) ? kFractionType
                                                                                          : kIntegerType;
}

int32_t count_characters(std::string_view text) {
  return static_cast<int32_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

/// Tells whether the values' other conditions hold.
class ConstantFilter {
 public:
  ConstantFilter(SchemaReader& reader, const SchemaParts& parts, uint8_t types)
      : reader_(reader), parts_(parts), types_(types) {}

  Status begin() {
    OCELLUS_TRY(read_number_range(reader_, parts_, &range_, &bound_));
    return find_string_rules(reader_, parts_, &rules_);
  }

  Status check(int32_t value, bool* holds) {
    OCELLUS_TRY(reader_.spend(value, 1 + steps_of(reader_.node(value).text)));
    const uint8_t type = type_of(reader_.node(value));
    *holds = (type & types_) != 0;
    for (const SchemaPart& part : parts_) {
      OCELLUS_TRY(reader_.spend(part.node, reader_.node(part.node).count));
      for (int32_t m = reader_.node(part.node).first; m != kNoJson && *holds; m = reader_.node(m).next)
        OCELLUS_TRY(check_keyword(m, value, type, holds));
    }
    return {};
  }

 private:
  Status check_keyword(int32_t keyword, int32_t value, uint8_t type, bool* holds) {
    const JsonNode& node = reader_.node(keyword);
    const Keyword known = find_keyword(node.name);
    if (known.role != KeywordRole::kRule || (known.types & type) == 0 || known.name == "type") return {};
    if (reader_.is_harmless(keyword)) return {};
    if (known.name == "const") return compare_values(keyword, keyword, value, holds);
    if (known.name == "enum") return find_equal(keyword, value, holds);
    if (known.name == "multipleOf") return check_multiple(keyword, value, holds);
    if (known.types == kNumberTypes) return check_number(value, holds);
    if (known.types != kStringType) return reader_.refuse(keyword, "leave this out beside enum and const");
    return check_string(keyword, value, holds);
  }

  Status check_string(int32_t keyword, int32_t value, bool* holds) {
    const std::string_view text = reader_.node(value).text;
    const int32_t length = count_characters(text);
    *holds = length >= rules_.lengths.least && length <= rules_.lengths.most;
    if (rules_.form_count == 0) return {};
    if (!has_strings_) OCELLUS_TRY(make_forms());
    *holds = *holds && accepts(strings_, text);
    return reader_.spend(keyword, 1 + steps_of(text));
  }

  /// The strings of all forms, in memory that stays.
  Status make_forms() {
    StringRules forms = rules_;
    forms.lengths = {};
    TextAutomata automata(&reader_.grammar(), reader_.memory().rest());
    OCELLUS_TRY(make_strings(reader_, forms, &automata, &strings_));
    has_strings_ = true;
    reader_.memory().keep(automata.used_bytes());
    return {};
  }

  Status check_multiple(int32_t keyword, int32_t value, bool* holds) const {
    Decimal number, of;
    if (read_decimal(reader_.node(value).text, &number) != DecimalFit::kFits ||
        read_decimal(reader_.node(keyword).text, &of) != DecimalFit::kFits || !of.is_integer() || of.is_zero())
      return reader_.refuse(keyword, "leave this out beside enum and const");
    *holds = number.is_integer() && number.whole % of.whole == 0;
    return {};
  }

  Status find_equal(int32_t list, int32_t value, bool* holds) {
    *holds = reader_.node(value).parent == list;
    for (int32_t item = reader_.node(list).first; item != kNoJson && !*holds; item = reader_.node(item).next)
      OCELLUS_TRY(compare_values(list, item, value, holds));
    return {};
  }

  Status compare_values(int32_t keyword, int32_t item, int32_t value, bool* holds) {
    int64_t steps = 0;
    *holds = are_equal(reader_.document(), item, value, &steps);
    return reader_.spend(keyword, steps);
  }

  Status check_number(int32_t value, bool* holds) const {
    Decimal number;
    if (read_decimal(reader_.node(value).text, &number) != DecimalFit::kFits)
      return reader_.refuse(value, "the number has too many digits to be compared with bounds");
    const int low = range_.has_low ? compare(number, range_.low.at) : 1;
    const int high = range_.has_high ? compare(number, range_.high.at) : -1;
    *holds = low >= (range_.low.is_strict ? 1 : 0) && high <= (range_.high.is_strict ? -1 : 0);
    return {};
  }

  SchemaReader& reader_;
  const SchemaParts& parts_;
  uint8_t types_;
  NumberRange range_;
  int32_t bound_ = kNoJson;
  StringRules rules_;
  Automaton strings_;
  bool has_strings_ = false;
};

struct BoundKeyword {
  std::string_view name;
  bool is_low, is_strict;
};
constexpr BoundKeyword kBounds[] = {{"minimum", true, false},
                                    {"exclusiveMinimum", true, true},
                                    {"maximum", false, false},
                                    {"exclusiveMaximum", false, true}};

Status read_bound(const SchemaReader& reader, int32_t index, Decimal* out) {
  if (reader.node(index).kind != JsonKind::kNumber) return reader.reject(index, "a bound is a number");
  const std::string_view text = reader.node(index).text;
  const DecimalFit fit = read_decimal(text, out);
  if (fit == DecimalFit::kTooLarge) out->whole = 1'000'000'000'000'000'000;  // above all integers that are written
  if (fit == DecimalFit::kTooLarge) out->fraction = 0;
  const bool is_double = text.find_first_of(".eE") != text.npos && fit != DecimalFit::kTooLarge;
  if (fit == DecimalFit::kTooFine ||
      (is_double && count_whole_digits(*out) + count_fraction_digits(*out) > kExactDigits))
    return reader.refuse(index, "a bound that is no integer has at most 15 digits");
  return {};
}

}  // namespace

Status read_number_range(SchemaReader& reader, const SchemaParts& parts, NumberRange* range, int32_t* bound) {
  for (const SchemaPart& part : parts) {
    for (const BoundKeyword& keyword : kBounds) {
      const int32_t index = reader.document().find(part.node, keyword.name);
      if (index == kNoJson || reader.is_harmless(index)) continue;
      Decimal at;
      OCELLUS_TRY(read_bound(reader, index, &at));
      *bound = index;
      NumberBound& edge = keyword.is_low ? range->low : range->high;
      bool& has_edge = keyword.is_low ? range->has_low : range->has_high;
      const int order = has_edge ? compare(at, edge.at) * (keyword.is_low ? 1 : -1) : 1;  // 1: tighter
      if (order > 0 || (order == 0 && keyword.is_strict)) edge = {at, keyword.is_strict};
      has_edge = true;
    }
  }
  return {};
}

Status SchemaReader::spend(int32_t place, int64_t steps) {
  constexpr int64_t kSteps = 4;  // weight on the grammar's meter
  steps_ += steps;
  if (!grammar_.spend(kSteps * steps)) return grammar_.status();
  return steps_ > kMaxSteps ? refuse(place, "too many values to compare") : Status();
}

Status SchemaReader::add_constant(int32_t index, Expression* out) {
  const HostView<std::byte> room = memory_.rest();
  char* const text = reinterpret_cast<char*>(room.data);
  const int64_t bytes = write_json(document_, index, text, room.cols);
  if (bytes < 0) return OCELLUS_FAIL(Code::kFull, "the memory of a constraint is too small for a constant");
  *out = grammar_.text({text, static_cast<size_t>(bytes)});
  return grammar_.status();
}

Status find_constants(SchemaReader& reader, const SchemaParts& parts, uint8_t types, bool* has_any, ConstantList* out) {
  const JsonDocument& document = reader.document();
  int32_t constant = kNoJson, list = kNoJson;
  for (const SchemaPart& part : parts) {
    if (constant == kNoJson) constant = document.find(part.node, "const");
    const int32_t values = document.find(part.node, "enum");
    if (values == kNoJson) continue;
    if (reader.node(values).kind != JsonKind::kArray) return reader.reject(values, "an enum is a list of values");
    if (list == kNoJson) list = values;
  }
  *has_any = constant != kNoJson || list != kNoJson;
  if (!*has_any) return {};
  OCELLUS_TRY(reader.memory().take(constant != kNoJson ? 1 : reader.node(list).count, &out->at));
  ConstantFilter filter(reader, parts, types);
  OCELLUS_TRY(filter.begin());
  int32_t value = constant != kNoJson ? constant : reader.node(list).first;
  for (; value != kNoJson; value = value == constant ? kNoJson : reader.node(value).next) {
    bool holds = false;
    OCELLUS_TRY(filter.check(value, &holds));
    if (holds) out->at[out->count++] = value;
  }
  if (out->count > 0) return {};
  return reader.no_value(constant != kNoJson ? constant : list, "none of these values satisfies the rest");
}

Status add_constants(SchemaReader& reader, const SchemaParts& parts, uint8_t types, bool* has_any, Expression* out) {
  ConstantList values;
  OCELLUS_TRY(find_constants(reader, parts, types, has_any, &values));
  ExpressionList choices;
  for (int32_t i = 0; i < values.count; ++i) {
    Expression e = kNoExpression;
    OCELLUS_TRY(reader.add_constant(values.at[i], &e));
    reader.grammar().append(&choices, e);
  }
  *out = reader.grammar().choice(choices);
  return reader.grammar().status();
}

}  // namespace ocellus

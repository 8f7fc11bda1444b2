// Types of the values at a place, and their strings and numbers.
#include "runtime/grammar/decimal.h"
#include "runtime/grammar/number_range.h"
#include "runtime/grammar/regex.h"
#include "runtime/grammar/schema_formats.h"
#include "runtime/grammar/schema_reader.h"

namespace ocellus {
namespace {

/// Tells whether a condition that is not read holds for all values that are read.
bool is_harmless(const JsonNode& node, uint8_t types) {
  if (node.name == "uniqueItems") return node.kind == JsonKind::kFalse;
  return node.name == "multipleOf" && node.kind == JsonKind::kNumber && node.text == "1" &&
         (types & kFractionType) == 0;
}

/// The one node that parts have of a keyword, or several with the same text.
Status find_one(SchemaReader& reader, const SchemaParts& parts, const char* keyword, int32_t* out) {
  for (const SchemaPart& part : parts) {
    const int32_t index = reader.document().find(part.node, keyword);
    if (index == kNoJson) continue;
    if (reader.node(index).kind != JsonKind::kString) return reader.reject(index, "this must be a string");
    if (*out != kNoJson && reader.node(*out).text != reader.node(index).text)
      return reader.refuse(index, "several of these cannot be combined");
    *out = index;
  }
  return {};
}

}  // namespace

Status SchemaReader::read_type(int32_t index, uint8_t* types) {
  const uint8_t type = node(index).kind == JsonKind::kString ? find_type(node(index).text) : uint8_t{kNoType};
  if (type == kNoType)
    return reject(index, "this is no type: write string, number, integer, boolean, null, array or object");
  *types = static_cast<uint8_t>(*types | type);
  return {};
}

/// Without a `type` they are those that the keywords are about.
Status SchemaReader::read_types(const SchemaParts& parts, uint8_t* types) {
  constexpr int64_t kKeywordSteps = 32;  // they are read twice
  uint8_t stated = kAllTypes, meant = kNoType;
  bool is_stated = false;
  for (const SchemaPart& part : parts) {
    if (!grammar_.spend(kKeywordSteps * node(part.node).count)) return grammar_.status();
    for (int32_t m = node(part.node).first; m != kNoJson; m = node(m).next) {
      const Keyword keyword = find_keyword(node(m).name);
      if (keyword.role == KeywordRole::kRule || keyword.role == KeywordRole::kRefused)
        meant = static_cast<uint8_t>(meant | keyword.types);
      if (keyword.name != "type") continue;
      is_stated = true;
      uint8_t all = kNoType;
      if (node(m).kind != JsonKind::kArray) OCELLUS_TRY(read_type(m, &all));
      for (int32_t i = node(m).first; i != kNoJson; i = node(i).next) OCELLUS_TRY(read_type(i, &all));
      stated = static_cast<uint8_t>(stated & all);
    }
  }
  *types = is_stated ? stated : meant;
  return *types == kNoType ? no_value(parts.at[0].node, "no type is left") : Status();
}

Status SchemaReader::refuse_keywords(const SchemaParts& parts, uint8_t types) {
  for (const SchemaPart& part : parts) {
    for (int32_t m = node(part.node).first; m != kNoJson; m = node(m).next) {
      const Keyword keyword = find_keyword(node(m).name);
      if (keyword.role == KeywordRole::kRefused && (keyword.types & types) != 0 && !is_harmless(node(m), types))
        return refuse(m, "the keyword is not supported");
    }
  }
  return {};
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

Status add_string_type(SchemaReader& reader, const SchemaParts& parts, Expression* out) {
  Grammar& g = reader.grammar();
  CountRange counts;
  OCELLUS_TRY(reader.read_counts(parts, "minLength", "maxLength", &counts));
  int32_t pattern = kNoJson, format = kNoJson;
  OCELLUS_TRY(find_one(reader, parts, "pattern", &pattern));
  OCELLUS_TRY(find_one(reader, parts, "format", &format));
  if (pattern == kNoJson && format == kNoJson)
    return *out = reader.json().string(counts.least, counts.most), g.status();
  if (pattern != kNoJson && format != kNoJson) return reader.refuse(pattern, "this cannot be combined with a format");
  const int32_t place = pattern != kNoJson ? pattern : format;
  const bool has_counts = counts.least > 0 || counts.most != kUnbounded;
  if (has_counts && (format == kNoJson || !fits_format(reader.node(format).text, counts.least, counts.most)))
    return reader.refuse(place, "this cannot be combined with minLength and maxLength");
  Expression e = kNoExpression;
  const std::string_view text = reader.node(place).text;
  const RegexOptions options = {.in_json_string = true, .searches = true, .categories = reader.categories()};
  const Status status = pattern != kNoJson ? read_regex(text, options, &g, &e) : add_format(text, &g, &e);
  if (!status.ok()) return prefix_failure(status, reader.document().path(place).text);
  *out = g.sequence(g.text("\""), g.sequence(e, g.text("\"")));
  return g.status();
}

Status add_number_type(SchemaReader& reader, const SchemaParts& parts, bool has_fractions, Expression* out) {
  Grammar& g = reader.grammar();
  NumberRange range;
  int32_t bound = kNoJson;
  OCELLUS_TRY(read_number_range(reader, parts, &range, &bound));
  if (bound == kNoJson) return *out = has_fractions ? reader.json().number() : reader.json().integer(), g.status();
  if (has_fractions && !fits_numbers(range))
    return reader.refuse(bound, "bounds of a number have at most 15 digits, zeros before the point counted");
  *out = has_fractions ? add_numbers(g, range) : add_integers(g, range);
  OCELLUS_TRY(g.status());
  if (g.node(*out).kind == ExpressionKind::kNever) return reader.no_value(bound, "the bounds leave no number");
  return {};
}

}  // namespace ocellus

#include "runtime/branches/constrain/grammar/schema_keywords.h"

#include <algorithm>

namespace ocellus {
namespace {

using enum KeywordRole;

constexpr Keyword kKeywords[] = {
    {"$schema", kNote},
    {"$id", kNote},
    {"$anchor", kNote},
    {"$dynamicAnchor", kNote},
    {"$vocabulary", kNote},
    {"$comment", kNote},
    {"id", kNote},
    {"$defs", kNote},
    {"definitions", kNote},
    {"title", kNote},
    {"description", kNote},
    {"default", kNote},
    {"examples", kNote},
    {"example", kNote},
    {"contentEncoding", kNote},  // these three annotate in draft 2020-12
    {"contentMediaType", kNote},
    {"contentSchema", kNote},
    {"deprecated", kNote},
    {"readOnly", kNote},
    {"writeOnly", kNote},
    {"discriminator", kNote},  // OpenAPI's: which choice it is stands in the choices
    {"$ref", kApplied},
    {"allOf", kApplied},
    {"anyOf", kChoice},
    {"oneOf", kChoice},
    {"type", kRule},
    {"enum", kRule},
    {"const", kRule},
    {"properties", kRule, kObjectType},
    {"required", kRule, kObjectType},
    {"additionalProperties", kRule, kObjectType},
    {"minProperties", kRule, kObjectType},
    {"maxProperties", kRule, kObjectType},
    {"items", kRule, kArrayType},
    {"prefixItems", kRule, kArrayType},
    {"minItems", kRule, kArrayType},
    {"maxItems", kRule, kArrayType},
    {"minLength", kRule, kStringType},
    {"maxLength", kRule, kStringType},
    {"pattern", kRule, kStringType},
    {"format", kRule, kStringType},
    {"minimum", kRule, kNumberTypes},
    {"maximum", kRule, kNumberTypes},
    {"exclusiveMinimum", kRule, kNumberTypes},
    {"exclusiveMaximum", kRule, kNumberTypes},
    {"multipleOf", kRule, kNumberTypes},
    {"uniqueItems", kRule, kArrayType},
    {"additionalItems", kRule, kArrayType},
    {"patternProperties", kRule, kObjectType},
    {"propertyNames", kRule, kObjectType},
    {"unevaluatedProperties", kRule, kObjectType},
    {"contains", kRefused, kArrayType, "write prefixItems and items"},
    {"minContains", kRefused, kArrayType, "write minItems"},
    {"maxContains", kRefused, kArrayType, "write maxItems"},
    {"unevaluatedItems", kRefused, kArrayType, "write items"},
    {"dependencies", kRefused, kObjectType, "write the cases as anyOf"},
    {"dependentRequired", kRefused, kObjectType, "write the cases as anyOf"},
    {"dependentSchemas", kRefused, kObjectType, "write the cases as anyOf"},
    {"not", kRefused, kAllTypes, "write what may come, as enum, anyOf or pattern"},
    {"if", kRefused, kAllTypes, "write the cases as anyOf"},
    {"then", kRefused, kAllTypes, "write the cases as anyOf"},
    {"else", kRefused, kAllTypes, "write the cases as anyOf"},
    {"nullable", kRefused, kAllTypes, "add \"null\" to the list of types"},
    {"$dynamicRef", kRefused, kAllTypes, "write $ref"},
    {"$recursiveRef", kRefused, kAllTypes, "write $ref"},
    {"divisibleBy", kRefused, kNumberTypes, "write multipleOf"},
    {"disallow", kRefused, kAllTypes, "write what may come, as type or anyOf"},
    {"extends", kRefused, kAllTypes, "write allOf"},
};

struct NamedType {
  std::string_view name;
  uint8_t types;
};
constexpr NamedType kTypes[] = {
    {"null", kNullType},     {"boolean", kBooleanType}, {"integer", kIntegerType}, {"number", kNumberTypes},
    {"string", kStringType}, {"array", kArrayType},     {"object", kObjectType},
};

constexpr size_t kMostLetters = 32;

/// A name in small letters, without - and _.
struct Letters {
  char at[kMostLetters];
  size_t count = 0;

  explicit Letters(std::string_view name) {
    for (const char c : name) {
      if (c == '-' || c == '_' || count == kMostLetters) continue;
      at[count++] = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    }
  }
};

/// Letters to put in, take out or change (Levenshtein).
size_t count_edits(const Letters& a, const Letters& b) {
  size_t row[kMostLetters + 1];
  for (size_t j = 0; j <= b.count; ++j) row[j] = j;
  for (size_t i = 0; i < a.count; ++i) {
    size_t diagonal = row[0]++;
    for (size_t j = 0; j < b.count; ++j) {
      const size_t changed = diagonal + (a.at[i] == b.at[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row[b.count];
}

}  // namespace

std::string_view find_similar_keyword(std::string_view name) {
  constexpr size_t kShort = 6, kLong = 9;  // names of which one and two letters may differ
  const Letters letters(name);
  size_t most = letters.count < kShort ? 0 : letters.count < kLong ? 1 : 2;
  std::string_view nearest;
  for (const Keyword& keyword : kKeywords) {
    const size_t edits = count_edits(letters, Letters(keyword.name));
    if (edits > most || (edits == most && !nearest.empty())) continue;
    nearest = keyword.name;
    most = edits;
  }
  return nearest;
}

Keyword find_keyword(std::string_view name) {
  for (const Keyword& keyword : kKeywords)
    if (keyword.name == name) return keyword;
  if (name.starts_with("x-")) return {name, kNote};  // an extension
  return {name};
}

uint8_t find_type(std::string_view name) {
  for (const NamedType& type : kTypes)
    if (type.name == name) return type.types;
  return kNoType;
}

}  // namespace ocellus

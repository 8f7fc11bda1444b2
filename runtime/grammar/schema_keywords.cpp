#include "runtime/grammar/schema_keywords.h"

namespace ocellus {
namespace {

using enum KeywordRole;

constexpr Keyword kKeywords[] = {
    {"$schema", kNote},
    {"$id", kNote},
    {"$anchor", kNote},
    {"$comment", kNote},
    {"$defs", kNote},
    {"definitions", kNote},
    {"title", kNote},
    {"description", kNote},
    {"default", kNote},
    {"examples", kNote},
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
    {"multipleOf", kRefused, kNumberTypes},
    {"contentEncoding", kRefused, kStringType},
    {"contentMediaType", kRefused, kStringType},
    {"contentSchema", kRefused, kStringType},
    {"uniqueItems", kRefused, kArrayType},
    {"contains", kRefused, kArrayType},
    {"minContains", kRefused, kArrayType},
    {"maxContains", kRefused, kArrayType},
    {"additionalItems", kRefused, kArrayType},
    {"unevaluatedItems", kRefused, kArrayType},
    {"patternProperties", kRefused, kObjectType},
    {"propertyNames", kRefused, kObjectType},
    {"dependencies", kRefused, kObjectType},
    {"dependentRequired", kRefused, kObjectType},
    {"dependentSchemas", kRefused, kObjectType},
    {"unevaluatedProperties", kRefused, kObjectType},
    {"not", kRefused},
    {"if", kRefused},
    {"then", kRefused},
    {"else", kRefused},
    {"$dynamicRef", kRefused},
    {"$dynamicAnchor", kRefused},
};

struct NamedType {
  std::string_view name;
  uint8_t types;
};
constexpr NamedType kTypes[] = {
    {"null", kNullType},     {"boolean", kBooleanType}, {"integer", kIntegerType}, {"number", kNumberTypes},
    {"string", kStringType}, {"array", kArrayType},     {"object", kObjectType},
};

}  // namespace

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

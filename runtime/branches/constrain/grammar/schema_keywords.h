// Keywords of JSON schemas.
#pragma once

#include <cstdint>
#include <string_view>

namespace ocellus {

/// Bits of types. A number that is an integer has only the bit of integers; the type "number" is both.
enum SchemaTypes : uint8_t {
  kNoType = 0,
  kNullType = 1,
  kBooleanType = 2,
  kIntegerType = 4,
  kFractionType = 8,
  kStringType = 16,
  kArrayType = 32,
  kObjectType = 64,
  kNumberTypes = kIntegerType | kFractionType,
  kAllTypes = 127
};

enum class KeywordRole : uint8_t {
  kUnknown,
  kNote,     // says nothing about values
  kApplied,  // $ref, allOf: schemas that hold at the same place
  kChoice,   // anyOf, oneOf
  kRule,     // a condition that is read
  kRefused   // a condition that is not, unless it holds for all values
};

struct Keyword {
  std::string_view name;
  KeywordRole role = KeywordRole::kUnknown;
  uint8_t types = kAllTypes;  // values that it says something about
  const char* instead = "";   // advice of its refusal
};

/// Role kUnknown if there is no such keyword: it annotates.
Keyword find_keyword(std::string_view name);
/// A keyword that an unknown one looks like, as maxlength and max_length; empty if there is none.
std::string_view find_similar_keyword(std::string_view name);

/// kNoType if there is no such type.
uint8_t find_type(std::string_view name);

}  // namespace ocellus

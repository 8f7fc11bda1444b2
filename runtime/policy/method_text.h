// Cache methods as a user names them: "david:switch=3,rho=1". A method lists its options in a table
// (ocellus_method_option), against which a text is checked here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "platform/status.h"
#include "runtime/ocellus.h"

namespace ocellus {

class RowRule;

inline constexpr int32_t kMaxMethodOptions = 12;

/// The option values of a method's text. Absent options have their defaults. Options are looked up by key.
class MethodValues {
 public:
  MethodValues() = default;

  bool has(std::string_view key) const { return find(key) >= 0; }
  /// True if the option has one of its words; otherwise it has a number.
  bool is_word(std::string_view key) const { return has(key) && values_[find(key)].word >= 0; }
  /// Index among the option's words, -1 if it has a number.
  int32_t word(std::string_view key) const { return has(key) ? values_[find(key)].word : -1; }
  /// Returns `otherwise` if the option has a word, or the method has no such option.
  float number(std::string_view key, float otherwise = 0) const;

 private:
  friend Status parse_method_options(const ocellus_method& method, std::string_view options, MethodValues* out);

  struct Value {
    int32_t word = -1;
    float number = 0;
  };
  int32_t find(std::string_view key) const;

  const ocellus_method* method_ = nullptr;
  Value values_[kMaxMethodOptions];
};

/// A method without options, or with a table of static storage.
constexpr ocellus_method describe_method(const char* name, const char* paper, const char* meaning) {
  return {name, paper, meaning, nullptr, 0, 0};
}
template <size_t kCount>
constexpr ocellus_method describe_method(const char* name, const char* paper, const char* meaning,
                                         const ocellus_method_option (&options)[kCount]) {
  static_assert(kCount <= kMaxMethodOptions);
  return {name, paper, meaning, options, static_cast<int32_t>(kCount), 0};
}
/// The same method, shown on help pages.
constexpr ocellus_method recommend(ocellus_method method) {
  method.recommended = 1;
  return method;
}

/// Methods that users name in a field of limits.
struct MethodTable {
  ocellus_method_kind kind;
  const char* what = "";  // "eviction method"
  bool has_none = false;  // there may be none; else an empty text names the first
  std::span<const ocellus_method> methods;
  /// Returns the rule of the index-th method; null after the last. Null: this build has none.
  const RowRule* (*rule_at)(int32_t index) = nullptr;

  int32_t place_of(const ocellus_method& method) const { return static_cast<int32_t>(&method - methods.data()); }
  const RowRule* rule_of(const ocellus_method* method) const {
    return method == nullptr || rule_at == nullptr ? nullptr : rule_at(place_of(*method));
  }
};

/// The methods of a branch, which this build may leave out; null: no branch has methods of this kind.
const MethodTable* methods_of(int32_t kind);

/// Parses "name:key=value,key=value"; null for "none" and for an empty text, where there may be none. kBadArgument
/// names the method or the option.
Status parse_method(const MethodTable& table, const char (&text)[OCELLUS_METHOD_TEXT], const ocellus_method** method,
                    MethodValues* options);

/// Parses "key=value,key=value". kBadArgument names the method, the key and the allowed values.
Status parse_method_options(const ocellus_method& method, std::string_view options, MethodValues* out);

}  // namespace ocellus

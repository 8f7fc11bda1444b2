// Cache methods as a user names them: "david:switch=3,rho=1". A method says in a table what it can be told
// (ocellus_method_option); here a text is checked against that table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "platform/status.h"
#include "runtime/ocellus.h"

namespace ocellus {

inline constexpr int32_t kMaxMethodOptions = 12;

/// What a text tells a method. Options that it leaves out have their standard values. Options are asked for by key.
class MethodValues {
 public:
  MethodValues() = default;

  bool has(std::string_view key) const { return find(key) >= 0; }
  /// Whether the option has one of its words; otherwise it has a number.
  bool is_word(std::string_view key) const { return has(key) && values_[find(key)].word >= 0; }
  /// The word's place among the option's words, -1 where it has a number.
  int32_t word(std::string_view key) const { return has(key) ? values_[find(key)].word : -1; }
  /// `otherwise` where the option has a word, or the method has no such option.
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

/// A method without options, or with a table that lives as long as the program.
constexpr ocellus_method describe_method(const char* name, const char* paper, const char* meaning) {
  return {name, paper, meaning, nullptr, 0, 0};
}
template <size_t kCount>
constexpr ocellus_method describe_method(const char* name, const char* paper, const char* meaning,
                                         const ocellus_method_option (&options)[kCount]) {
  static_assert(kCount <= kMaxMethodOptions);
  return {name, paper, meaning, options, static_cast<int32_t>(kCount), 0};
}
/// The same, as one of the few that help pages show.
constexpr ocellus_method recommend(ocellus_method method) {
  method.recommended = 1;
  return method;
}

/// A method's name and what comes after its colon, of the text in a field of a cache policy. kBadArgument if the text
/// does not end within the field; `what` names the field.
struct MethodText {
  std::string_view name;
  std::string_view options;
};
Status split_method_text(const char* what, const char (&field)[OCELLUS_METHOD_TEXT], MethodText* out);

/// Reads "key=value,key=value". kBadArgument names the method, the key and what is allowed.
Status parse_method_options(const ocellus_method& method, std::string_view options, MethodValues* out);

}  // namespace ocellus

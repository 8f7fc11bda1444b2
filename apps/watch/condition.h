// Conditions on answers in JSON: `count > 3 and what contains "dog" or alarm`.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace ocellus::app {

// Parses an answer that was held to JSON; null if it is cut off (a number is, unless `is_ended`) or deeper than 64
// levels.
nlohmann::ordered_json parse_answer(const std::string& text, bool is_ended);

// Returns the value at the names and indices of `objects.0.label`, or the number of elements for `objects.length`;
// nullopt if the answer lacks it.
std::optional<nlohmann::ordered_json> find_value(const nlohmann::ordered_json& answer, const std::string& field);

// Compares fields with numbers, strings in quotes, true, false and null. `contains` looks for a part of a string, or
// for a value anywhere in an array or object. A field alone is compared with true. `and` binds more than `or`.
class Condition {
 public:
  // Throws a Failure that says where the text is wrong.
  explicit Condition(const std::string& text);

  const std::string& text() const { return text_; }
  // A comparison with a missing field is false, `!=`, too; `missing` becomes its name.
  bool holds_in(const nlohmann::ordered_json& answer, std::string* missing) const;

 private:
  struct Comparison {
    std::string field, how;
    nlohmann::ordered_json value;
    bool holds_in(const nlohmann::ordered_json& answer, std::string* missing) const;
  };
  std::string text_;
  std::vector<std::vector<Comparison>> alternatives_;  // all of one must hold
};

}  // namespace ocellus::app

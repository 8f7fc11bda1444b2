#include "apps/base/number_validator.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <string>

namespace ocellus::app {

namespace {

// Formats a number with as many digits as it has: 0.05, 100000.
std::string exact_number(double value) {
  char text[64];
  return {text, std::to_chars(text, text + sizeof text, value, std::chars_format::fixed).ptr};
}

}  // namespace

CLI::Validator number_between(double low, double high) {
  const std::string bounds = exact_number(low) + " to " + exact_number(high);
  return CLI::Validator(
      [low, high, bounds](std::string& text) {
        char* end = nullptr;
        const double value = std::strtod(text.c_str(), &end);
        const bool is_number = !text.empty() && *end == '\0';
        return is_number && value >= low && value <= high ? std::string() : text + " is not a number from " + bounds;
      },
      bounds);
}

CLI::Validator whole_number() {
  const std::string bounds = "0 to " + std::to_string(std::numeric_limits<uint64_t>::max());
  return CLI::Validator(
      [bounds](std::string& text) {
        uint64_t value = 0;
        const char* const end = text.data() + text.size();
        const auto [stop, error] = std::from_chars(text.data(), end, value);
        return error == std::errc() && stop == end ? std::string() : text + " is not a whole number from " + bounds;
      },
      bounds);
}

CLI::Validator one_of_numbers(const std::vector<int>& allowed) {
  std::string list;
  for (size_t i = 0; i < allowed.size(); ++i) {
    list += (i == 0 ? "" : i + 1 < allowed.size() ? ", " : " or ") + std::to_string(allowed[i]);
  }
  return CLI::Validator(
      [allowed, list](std::string& text) {
        const bool is_known =
            std::any_of(allowed.begin(), allowed.end(), [&text](int value) { return text == std::to_string(value); });
        return is_known ? std::string() : text + " is not " + list;
      },
      list);
}

}  // namespace ocellus::app

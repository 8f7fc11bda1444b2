#include "apps/number_validator.h"

#include <cmath>
#include <cstdlib>
#include <string>

#include "apps/sizes.h"

namespace ocellus {

CLI::Validator number_between(double low, double high) {
  const std::string bounds = format_number(low, low == std::floor(low) ? 0 : 1) + " to " + format_number(high, 0);
  return CLI::Validator(
      [low, high, bounds](std::string& text) {
        char* end = nullptr;
        const double value = std::strtod(text.c_str(), &end);
        const bool is_number = !text.empty() && *end == '\0';
        return is_number && value >= low && value <= high ? std::string() : text + " is not a number from " + bounds;
      },
      bounds);
}

}  // namespace ocellus

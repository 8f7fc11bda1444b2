// Decimal: a JSON number exactly, as bounds in schemas are compared.
#pragma once

#include <cstdint>
#include <string_view>

namespace ocellus {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

struct Decimal {
  bool is_negative = false;
  uint64_t whole = 0;     // below 10^18
  uint64_t fraction = 0;  // units of 10^-18

  bool is_zero() const { return whole == 0 && fraction == 0; }
  bool is_integer() const { return fraction == 0; }
  bool operator==(const Decimal&) const = default;
};

enum class DecimalFit {
  kFits,
  kTooLarge,  // 10^18 or more; the sign is given
  kTooFine    // more than 18 digits after the point
};

/// `text` is a number in JSON's spelling. Minus zero is zero.
DecimalFit read_decimal(std::string_view text, Decimal* out);

/// Below, at or above 0 as a is less than, equal to or greater than b.
int compare(const Decimal& a, const Decimal& b);

/// Digits of the number before the point, 1 at least; after it, without zeros at the end.
int count_whole_digits(const Decimal& value);
int count_fraction_digits(const Decimal& value);

}  // namespace ocellus

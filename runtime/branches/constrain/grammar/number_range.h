// Decimal spellings of the numbers between two bounds.
#pragma once

#include "runtime/branches/constrain/grammar/decimal.h"
#include "runtime/branches/constrain/grammar/grammar.h"

namespace ocellus {

struct NumberBound {
  Decimal at;
  bool is_strict = false;  // the bound itself is outside
};

struct NumberRange {
  NumberBound low, high;
  bool has_low = false, has_high = false;
};

/// Exact decimals of this many digits are different doubles.
inline constexpr int kExactDigits = 15;

/// Integers of at most 18 digits in the range, without leading zeros and minus zero; Grammar::never if there are none.
Expression add_integers(Grammar& grammar, const NumberRange& range);

/// Tells whether bounds have few enough digits, so that numbers that add_numbers writes are inside them as doubles,
/// too.
bool fits_numbers(const NumberRange& range);

/// Numbers without exponents in the range, which fits_numbers(). At most kExactDigits digits; where the range has no
/// end, fewer than 10^9 if the bounds are. Grammar::never if there are none.
Expression add_numbers(Grammar& grammar, const NumberRange& range);

}  // namespace ocellus

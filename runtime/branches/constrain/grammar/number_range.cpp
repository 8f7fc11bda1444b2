#include "runtime/branches/constrain/grammar/number_range.h"

#include <algorithm>

namespace ocellus {
namespace {

constexpr int kMaxDigits = 18;
constexpr int kUsualWholeDigits = 9;

constexpr uint64_t power_of_ten(int exponent) {
  uint64_t power = 1;
  for (; exponent > 0; --exponent) power *= 10;
  return power;
}
constexpr uint64_t kLimit = power_of_ten(kMaxDigits);

/// Magnitudes from low to high.
struct Magnitudes {
  NumberBound low, high;
};

bool is_never(const Grammar& g, Expression e) { return e != kNoExpression && g.node(e).kind == ExpressionKind::kNever; }

/// Appends a sequence that can match something.
void append_pair(Grammar& g, ExpressionList* list, Expression first, Expression second) {
  if (!is_never(g, first) && !is_never(g, second)) g.append(list, g.sequence(first, second));
}

Expression add_digit(Grammar& g, char first, char last) { return g.byte(ByteSet().add_range(first, last)); }

/// Strings of digits, as fractions are ordered: "5" is "50", and between "49" and "51".
class DigitRange {
 public:
  /// Between `least` and `most` digits; low and high are numbers of `most` digits.
  DigitRange(Grammar& g, uint64_t low, uint64_t high, int least, int most)
      : grammar_(g), least_(least), most_(most), any_(add_digit(g, '0', '9')) {
    for (int i = most; i-- > 0; low /= 10, high /= 10) {
      low_[i] = static_cast<char>('0' + low % 10);
      high_[i] = static_cast<char>('0' + high % 10);
    }
  }
  void set_strict(bool is_low_strict, bool is_high_strict) {
    is_low_strict_ = is_low_strict;
    is_high_strict_ = is_high_strict;
  }

  /// The digits from `i` on, after those before `i`; has_low: they are those of low, so that low bounds what follows.
  Expression add_rest(int i, bool has_low, bool has_high) const {
    Grammar& g = grammar_;
    if (has_low && !is_low_strict_ && are_all(low_, i, '0')) has_low = false;
    if (has_high && !is_high_strict_ && are_all(high_, i, '9')) has_high = false;
    if (!has_low && !has_high) return g.repeat(any_, std::max(0, least_ - i), most_ - i);
    ExpressionList list;
    if (ends(i, has_low, has_high)) g.append(&list, g.text({}));
    if (i < most_) append_digits(&list, i, has_low, has_high);
    return g.choice(list);
  }

  /// Tells whether the digits may end before `i`.
  bool ends(int i, bool has_low, bool has_high) const {
    if (has_low && (is_low_strict_ || !are_all(low_, i, '0'))) return false;
    return i >= least_ && !(has_high && is_high_strict_ && are_all(high_, i, '0'));
  }

 private:
  void append_digits(ExpressionList* list, int i, bool has_low, bool has_high) const {
    Grammar& g = grammar_;
    char first = has_low ? low_[i] : '0', last = has_high ? high_[i] : '9';
    const auto append_edge = [&](char digit, bool keeps_low, bool keeps_high) {
      append_pair(g, list, add_digit(g, digit, digit), add_rest(i + 1, keeps_low, keeps_high));
    };
    if (first == last) return append_edge(first, has_low, has_high);
    if (has_low) append_edge(first++, true, false);
    if (has_high) append_edge(last--, false, true);
    if (first <= last) append_pair(g, list, add_digit(g, first, last), add_rest(i + 1, false, false));
  }

  bool are_all(const char* digits, int i, char digit) const {
    return std::all_of(digits + i, digits + most_, [=](char c) { return c == digit; });
  }

  Grammar& grammar_;
  int least_, most_;
  bool is_low_strict_ = false, is_high_strict_ = false;
  Expression any_;
  char low_[kMaxDigits], high_[kMaxDigits];
};

/// Natural numbers from low to high, without leading zeros.
Expression add_naturals(Grammar& g, uint64_t low, uint64_t high) {
  ExpressionList list;
  for (int length = 1; length <= kMaxDigits; ++length) {
    const uint64_t first = std::max(low, length == 1 ? 0 : power_of_ten(length - 1));
    const uint64_t last = std::min(high, power_of_ten(length) - 1);
    if (first <= last) g.append(&list, DigitRange(g, first, last, length, length).add_rest(0, true, true));
  }
  return g.choice(list);
}

/// A range as magnitudes of its negative and of its other numbers.
struct Signs {
  Magnitudes negative, other;
  bool has_negative, has_other;
};

Signs split_signs(const NumberRange& range, const NumberBound& limit) {
  const auto mirrored = [](NumberBound bound) {
    bound.at.is_negative = false;
    return bound;
  };
  const NumberBound low = range.low, high = range.high;
  const bool is_low_negative = !range.has_low || low.at.is_negative;
  const bool is_high_negative = range.has_high && high.at.is_negative;
  Signs signs;
  signs.has_negative = is_low_negative;
  signs.has_other = !is_high_negative;
  signs.negative.low = is_high_negative ? mirrored(high) : NumberBound{{}, true};  // there is no minus zero
  signs.negative.high = range.has_low ? mirrored(low) : limit;
  signs.other.low = is_low_negative ? NumberBound() : low;
  signs.other.high = range.has_high ? high : limit;
  return signs;
}

Expression add_signed(Grammar& g, const Signs& signs, Expression negative, Expression other) {
  ExpressionList list;
  if (signs.has_other && !is_never(g, other)) g.append(&list, other);
  if (signs.has_negative) append_pair(g, &list, g.text("-"), negative);
  return g.choice(list);
}

Expression add_natural_range(Grammar& g, const Magnitudes& range) {
  const Decimal& low = range.low.at;
  const Decimal& high = range.high.at;
  const uint64_t first = low.whole + (range.low.is_strict || !low.is_integer() ? 1 : 0);
  const uint64_t end = high.whole + (range.high.is_strict && high.is_integer() ? 0 : 1);
  return first < end ? add_naturals(g, first, end - 1) : g.never();
}

/// Magnitudes with at most `places` digits after the point.
class NumberSpeller {
 public:
  NumberSpeller(Grammar& g, int places) : grammar_(g), places_(places) {}

  Expression add(const Magnitudes& range) const {
    Grammar& g = grammar_;
    const uint64_t low = range.low.at.whole, high = range.high.at.whole;
    if (compare(range.low.at, range.high.at) > 0) return g.never();
    ExpressionList list;
    append_with_whole(&list, low, range, true, low == high);
    if (high - low > 1) append_pair(g, &list, add_naturals(g, low + 1, high - 1), add_fraction({}, false, false));
    if (high > low) append_with_whole(&list, high, range, false, true);
    return g.choice(list);
  }

 private:
  void append_with_whole(ExpressionList* list, uint64_t whole, const Magnitudes& range, bool has_low,
                         bool has_high) const {
    append_pair(grammar_, list, add_naturals(grammar_, whole, whole), add_fraction(range, has_low, has_high));
  }

  /// Nothing, or a point and digits.
  Expression add_fraction(const Magnitudes& range, bool has_low, bool has_high) const {
    Grammar& g = grammar_;
    const uint64_t unit = power_of_ten(kMaxDigits - places_);
    DigitRange digits(g, range.low.at.fraction / unit, range.high.at.fraction / unit, 0, places_);
    digits.set_strict(range.low.is_strict, range.high.is_strict);
    ExpressionList list;
    if (digits.ends(0, has_low, has_high)) g.append(&list, g.text({}));
    DigitRange some(g, range.low.at.fraction / unit, range.high.at.fraction / unit, 1, places_);
    some.set_strict(range.low.is_strict, range.high.is_strict);
    if (places_ > 0) append_pair(g, &list, g.text("."), some.add_rest(0, has_low, has_high));
    return g.choice(list);
  }

  Grammar& grammar_;
  int places_;
};

/// Digits before and after the point.
struct Places {
  int whole, fraction;
};

Places choose_places(const NumberRange& range) {
  Places needed = {1, 0};
  const auto add = [&](const Decimal& bound) {
    needed.whole = std::max(needed.whole, count_whole_digits(bound));
    needed.fraction = std::max(needed.fraction, count_fraction_digits(bound));
  };
  if (range.has_low) add(range.low.at);
  if (range.has_high) add(range.high.at);
  const bool is_open = !range.has_low || !range.has_high;
  if (is_open) needed.whole = std::max(needed.whole, std::min(kUsualWholeDigits, kExactDigits - needed.fraction));
  needed.fraction = std::max(needed.fraction, kExactDigits - needed.whole);
  return needed;
}

}  // namespace

Expression add_integers(Grammar& g, const NumberRange& range) {
  const Signs signs = split_signs(range, {{.whole = kLimit}, true});
  return add_signed(g, signs, signs.has_negative ? add_natural_range(g, signs.negative) : g.never(),
                    signs.has_other ? add_natural_range(g, signs.other) : g.never());
}

bool fits_numbers(const NumberRange& range) {
  const Places places = choose_places(range);
  return places.whole + places.fraction <= kExactDigits;
}

Expression add_numbers(Grammar& g, const NumberRange& range) {
  const Places places = choose_places(range);
  const Signs signs = split_signs(range, {{.whole = power_of_ten(places.whole)}, true});
  const NumberSpeller speller(g, places.fraction);
  return add_signed(g, signs, signs.has_negative ? speller.add(signs.negative) : g.never(),
                    signs.has_other ? speller.add(signs.other) : g.never());
}

}  // namespace ocellus

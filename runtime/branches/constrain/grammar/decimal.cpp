#include "runtime/branches/constrain/grammar/decimal.h"

#include "runtime/branches/constrain/grammar/text_after.h"

namespace ocellus {
namespace {

constexpr int kPlaces = 18;
constexpr int64_t kMaxExponent = 1'000'000'000;  // no text has that number of digits

uint64_t power_of_ten(int64_t exponent) {
  uint64_t power = 1;
  for (; exponent > 0; --exponent) power *= 10;
  return power;
}

/// `text` begins after the e.
int64_t read_exponent(std::string_view text) {
  int64_t value = 0;
  for (const char c : text)
    if (is_digit(c) && value < kMaxExponent) value = value * 10 + (c - '0');
  return !text.empty() && text[0] == '-' ? -value : value;
}

}  // namespace

DecimalFit read_decimal(std::string_view text, Decimal* out) {
  *out = {};
  const bool is_negative = !text.empty() && text[0] == '-';
  if (is_negative) text.remove_prefix(1);
  const size_t end = text.find_first_of("eE");
  const std::string_view digits = text.substr(0, end);
  const size_t point = digits.find('.');
  int64_t place = static_cast<int64_t>(point == digits.npos ? digits.size() : point) - 1;  // power of ten of a digit
  if (end != text.npos) place += read_exponent(text_after(text, end + 1));
  bool is_fine = false;
  for (const char c : digits) {
    if (!is_digit(c)) continue;
    const auto digit = static_cast<uint64_t>(c - '0');
    if (digit != 0) out->is_negative = is_negative;
    if (digit != 0 && place >= kPlaces) return DecimalFit::kTooLarge;
    if (digit != 0 && place < -kPlaces) is_fine = true;
    if (place >= 0 && place < kPlaces) out->whole += digit * power_of_ten(place);
    if (place < 0 && place >= -kPlaces) out->fraction += digit * power_of_ten(kPlaces + place);
    --place;
  }
  return is_fine ? DecimalFit::kTooFine : DecimalFit::kFits;
}

int compare(const Decimal& a, const Decimal& b) {
  if (a.is_negative != b.is_negative) return a.is_negative ? -1 : 1;
  const int order = a.whole != b.whole         ? (a.whole < b.whole ? -1 : 1)
                    : a.fraction != b.fraction ? (a.fraction < b.fraction ? -1 : 1)
                                               : 0;
  return a.is_negative ? -order : order;
}

int count_whole_digits(const Decimal& value) {
  int count = 1;
  for (uint64_t rest = value.whole / 10; rest > 0; rest /= 10) ++count;
  return count;
}

int count_fraction_digits(const Decimal& value) {
  if (value.fraction == 0) return 0;
  int count = kPlaces;
  for (uint64_t rest = value.fraction; rest % 10 == 0; rest /= 10) --count;
  return count;
}

}  // namespace ocellus

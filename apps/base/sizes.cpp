#include "apps/base/sizes.h"

#include <cctype>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <string_view>

namespace ocellus::app {
namespace {

// Reads the digits at the start of `text` and removes them.
std::optional<int64_t> take_number(std::string_view* text) {
  int64_t value = 0;
  const char* begin = text->data();
  const char* end = begin + text->size();
  if (text->empty() || !std::isdigit(static_cast<unsigned char>(*begin))) return std::nullopt;
  const auto [stop, error] = std::from_chars(begin, end, value);
  if (error != std::errc()) return std::nullopt;
  text->remove_prefix(static_cast<size_t>(stop - begin));
  return value;
}

std::optional<int64_t> unit_bytes(std::string_view unit) {
  if (unit.empty()) return 1;
  std::string name;
  for (const char c : unit) name += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  const size_t power = std::string("KMGT").find(name[0]);
  if (power == std::string::npos) return std::nullopt;
  const std::string rest = name.substr(1);
  if (rest != "" && rest != "IB" && rest != "B") return std::nullopt;
  int64_t bytes = 1;
  for (size_t i = 0; i <= power; ++i) bytes *= rest == "B" ? 1000 : 1024;
  return bytes;
}

}  // namespace

std::optional<int64_t> parse_bytes(const std::string& text) {
  std::string_view rest = text;
  const std::optional<int64_t> number = take_number(&rest);
  const std::optional<int64_t> unit = unit_bytes(rest);
  if (!number || !unit || *number > INT64_MAX / *unit) return std::nullopt;
  return *number * *unit;
}

std::optional<int64_t> parse_pixels(const std::string& text) {
  std::string_view rest = text;
  std::optional<int64_t> pixels = take_number(&rest);
  if (!pixels) return std::nullopt;
  if (!rest.empty() && rest[0] == 'x') {
    rest.remove_prefix(1);
    const std::optional<int64_t> height = take_number(&rest);
    if (!height || *height < 1 || *pixels > INT32_MAX / *height) return std::nullopt;
    *pixels *= *height;
  }
  if (!rest.empty() || *pixels < 1 || *pixels > INT32_MAX) return std::nullopt;
  return pixels;
}

std::optional<int64_t> parse_seconds(const std::string& text) {
  constexpr int64_t kDay = 24 * 3600, kMaxSeconds = 365'000 * kDay;
  std::string_view rest = text;
  const std::optional<int64_t> number = take_number(&rest);
  const int64_t unit = rest == "s" ? 1 : rest == "m" ? 60 : rest == "h" ? 3600 : rest == "d" ? kDay : 0;
  if (!number || unit == 0 || *number < 1 || *number > kMaxSeconds / unit) return std::nullopt;
  return *number * unit;
}

std::string format_number(double value, int decimals) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  const bool is_zero = std::strspn(text + 1, "0.") == std::strlen(text + 1);
  return text[0] == '-' && is_zero ? text + 1 : text;
}

std::string format_mib(int64_t bytes) { return format_number(static_cast<double>(bytes) / (1024.0 * 1024.0), 1); }

std::string format_bytes(int64_t bytes) { return format_count(bytes, "byte") + " (" + format_mib(bytes) + " MiB)"; }

std::string format_count(int64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

}  // namespace ocellus::app

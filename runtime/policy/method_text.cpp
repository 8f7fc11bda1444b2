#include "runtime/policy/method_text.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>

namespace ocellus {
namespace {

/// The beginning of a user's text, quoted in sentences.
struct Quoted {
  static constexpr size_t kLength = 40;
  int length;
  const char* text;
  explicit Quoted(std::string_view whole) : length(whole_characters(whole)), text(whole.data()) {}
  /// Bytes of the longest start of at most kLength bytes that ends with a whole character of UTF-8.
  static int whole_characters(std::string_view whole) {
    if (whole.size() <= kLength) return static_cast<int>(whole.size());
    size_t bytes = kLength;
    while (bytes > 0 && (static_cast<unsigned char>(whole[bytes]) & 0xC0) == 0x80) --bytes;
    return static_cast<int>(bytes);
  }
};

/// Takes the text before the next `separator` off the front of `rest`, and the separator.
std::string_view take_until(char separator, std::string_view* rest) {
  const size_t end = std::min(rest->find(separator), rest->size());
  const std::string_view taken(rest->data(), end);
  rest->remove_prefix(std::min(end + 1, rest->size()));
  return taken;
}

/// Returns the index of `text` in a list "max|mean"; -1 if it is missing.
int32_t find_word(const char* words, std::string_view text) {
  std::string_view rest = words == nullptr ? "" : words;
  for (int32_t place = 0; !rest.empty(); ++place)
    if (take_until('|', &rest) == text) return place;
  return -1;
}

bool takes_numbers(const ocellus_method_option& option) { return option.least <= option.most; }

bool is_number_of(const ocellus_method_option& option, double value) {
  if (!takes_numbers(option) || !(value >= option.least && value <= option.most)) return false;
  const auto whole = static_cast<int64_t>(value);  // the bounds of whole numbers are far within int64_t
  if (option.step == 0) return true;
  return static_cast<double>(whole) == value && (whole - static_cast<int64_t>(option.least)) % option.step == 0;
}

/// Formats "auto, or a whole number from 1 to 65536".
struct Range {
  char text[160];
  explicit Range(const ocellus_method_option& option) {
    const char* const words = option.words == nullptr ? "" : option.words;
    int length = 0;
    if (*words != '\0') length = std::snprintf(text, sizeof text, "%s", words);
    if (!takes_numbers(option)) return;
    const char* const kind = option.step == 0 ? "a" : option.step == 1 ? "a whole" : "an odd";
    std::snprintf(text + length, sizeof text - static_cast<size_t>(length), "%s%s number from %g to %g",
                  length > 0 ? ", or " : "", kind, option.least, option.most);
  }
};

/// Formats "window, pool, rho".
struct Keys {
  char text[256] = "";
  explicit Keys(const ocellus_method& method) {
    size_t length = 0;
    for (int32_t i = 0; i < method.option_count && length < sizeof text; ++i)
      length += static_cast<size_t>(
          std::snprintf(text + length, sizeof text - length, "%s%s", i > 0 ? ", " : "", method.options[i].key));
  }
};

bool read_number(std::string_view text, double* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size();
}

int32_t find_option(const ocellus_method& method, std::string_view key) {
  for (int32_t i = 0; i < method.option_count; ++i)
    if (method.options[i].key == key) return i;
  return -1;
}

Status refuse_key(const ocellus_method& method, std::string_view key) {
  const Quoted quoted(key);
  if (method.option_count == 0)
    return OCELLUS_FAIL(Code::kBadArgument, "%s has no options, and so no '%.*s'", method.name, quoted.length,
                        quoted.text);
  return OCELLUS_FAIL(Code::kBadArgument, "%s has no option '%.*s'; it has %s", method.name, quoted.length, quoted.text,
                      Keys(method).text);
}

/// A method's name and its options after the colon.
struct MethodText {
  std::string_view name;
  std::string_view options;
};

/// `what` names the field. kBadArgument if the text does not end within it.
Status split_method_text(const char* what, const char (&field)[OCELLUS_METHOD_TEXT], MethodText* out) {
  const void* const end = std::memchr(field, '\0', sizeof field);
  if (end == nullptr)
    return OCELLUS_FAIL(Code::kBadArgument, "the text of the %s has more than %d bytes", what, OCELLUS_METHOD_TEXT - 1);
  std::string_view rest(field, static_cast<size_t>(static_cast<const char*>(end) - field));
  const bool has_colon = rest.find(':') != std::string_view::npos;
  out->name = take_until(':', &rest);
  out->options = rest;
  if (!has_colon || !rest.empty()) return {};
  const Quoted name(out->name);
  if (out->name.empty())
    return OCELLUS_FAIL(Code::kBadArgument, "the name of the %s is missing before the colon", what);
  return OCELLUS_FAIL(Code::kBadArgument, "%.*s: options are missing after the colon, as in NAME:key=value",
                      name.length, name.text);
}

/// The names of all methods, separated by commas.
struct MethodNames {
  char text[400] = "";
  explicit MethodNames(const MethodTable& table) {
    size_t length = 0;
    for (const ocellus_method& method : table.methods)
      if (length < sizeof text)
        length += static_cast<size_t>(
            std::snprintf(text + length, sizeof text - length, "%s%s", length > 0 ? ", " : "", method.name));
  }
};

const char* article_of(std::string_view noun) {
  return std::string_view("aeio").find(noun[0]) != noun.npos ? "an" : "a";
}

}  // namespace

int32_t MethodValues::find(std::string_view key) const { return method_ == nullptr ? -1 : find_option(*method_, key); }

float MethodValues::number(std::string_view key, float otherwise) const {
  return has(key) && !is_word(key) ? values_[find(key)].number : otherwise;
}

Status parse_method_options(const ocellus_method& method, std::string_view options, MethodValues* out) {
  MethodValues values;
  values.method_ = &method;
  const auto set = [&](int32_t place, std::string_view text) {
    const ocellus_method_option& option = method.options[place];
    MethodValues::Value& value = values.values_[place];
    double number = 0;
    value.word = find_word(option.words, text);
    if (value.word < 0 && !(read_number(text, &number) && is_number_of(option, number))) return false;
    value.number = static_cast<float>(number);
    return true;
  };
  for (int32_t i = 0; i < method.option_count; ++i)
    if (!set(i, method.options[i].standard))
      return OCELLUS_FAIL(Code::kInternal, "%s: the default of %s is not among its values", method.name,
                          method.options[i].key);
  bool given[kMaxMethodOptions] = {};
  const bool ends_with_comma = options.ends_with(',');
  while (!options.empty()) {
    std::string_view value = take_until(',', &options);
    if (value.empty() || (options.empty() && ends_with_comma))
      return OCELLUS_FAIL(Code::kBadArgument, "%s: there is a comma without an option", method.name);
    const bool has_value = value.find('=') != std::string_view::npos;
    const std::string_view key = take_until('=', &value);
    const int32_t place = find_option(method, key);
    if (place < 0) return refuse_key(method, key);
    const char* const known = method.options[place].key;
    const Range range(method.options[place]);
    if (!has_value)
      return OCELLUS_FAIL(Code::kBadArgument, "%s: %s needs a value, as in %s=%s; it takes %s", method.name, known,
                          known, method.options[place].standard, range.text);
    if (given[place]) return OCELLUS_FAIL(Code::kBadArgument, "%s: %s is given twice", method.name, known);
    given[place] = true;
    const Quoted quoted(value);
    if (!set(place, value))
      return OCELLUS_FAIL(Code::kBadArgument, "%s: %s takes %s, not '%.*s'", method.name, known, range.text,
                          quoted.length, quoted.text);
  }
  *out = values;
  return {};
}

Status parse_method(const MethodTable& table, const char (&text)[OCELLUS_METHOD_TEXT], const ocellus_method** method,
                    MethodValues* options) {
  MethodText parts;
  OCELLUS_TRY(split_method_text(table.what, text, &parts));
  *method = nullptr;
  const bool is_empty = parts.name.empty() && parts.options.empty();
  const bool is_none = table.has_none && (parts.name.empty() || parts.name == "none");
  if (parts.options.empty() && is_none) return {};
  const std::string_view name = is_empty ? table.methods[0].name : parts.name;
  for (const ocellus_method& known : table.methods)
    if (known.name == name) *method = &known;
  if (*method != nullptr) return parse_method_options(**method, parts.options, options);
  const MethodNames names(table);
  if (is_none)
    return OCELLUS_FAIL(Code::kBadArgument, "options are for %s %s; there are %s", article_of(table.what), table.what,
                        names.text);
  const Quoted quoted(name);
  return OCELLUS_FAIL(Code::kBadArgument, "there is no %s '%.*s'; there are %s%s", table.what, quoted.length,
                      quoted.text, table.has_none ? "none, " : "", names.text);
}

}  // namespace ocellus

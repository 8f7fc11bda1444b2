#include "runtime/grammar/schema_formats.h"

#include "runtime/grammar/regex.h"

namespace ocellus {
namespace {

constexpr std::string_view kDate =
    "(?:[1-9]\\d{3}|0[1-9]\\d{2}|00[1-9]\\d|000[1-9])-"
    "(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-(?:0[1-9]|1\\d|2[0-8]))"
    "|(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)-02-29";
constexpr std::string_view kTime =
    "(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,6})?(?:Z|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)";
/// At most 8 labels of 30 characters.
constexpr std::string_view kHost =
    "[A-Za-z0-9](?:[A-Za-z0-9-]{0,28}[A-Za-z0-9])?(?:\\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,28}[A-Za-z0-9])?){0,7}";
constexpr std::string_view kIpv4 =
    "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)(?:\\.(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)){3}";
constexpr std::string_view kIpv6 =
    "(?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4}|(?:[0-9a-f]{1,4}:){1,6}:[0-9a-f]{1,4}"
    "|(?:[0-9a-f]{1,4}:){1,5}(?::[0-9a-f]{1,4}){2}|(?:[0-9a-f]{1,4}:){1,4}(?::[0-9a-f]{1,4}){3}"
    "|(?:[0-9a-f]{1,4}:){1,3}(?::[0-9a-f]{1,4}){4}|(?:[0-9a-f]{1,4}:){1,2}(?::[0-9a-f]{1,4}){5}"
    "|[0-9a-f]{1,4}:(?::[0-9a-f]{1,4}){6}|(?:[0-9a-f]{1,4}:){1,7}:|:(?:(?::[0-9a-f]{1,4}){1,7}|:)";
constexpr std::string_view kUuid = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";
constexpr std::string_view kMailbox = "[A-Za-z0-9_%+-]{1,30}(?:\\.[A-Za-z0-9_%+-]{1,30}){0,3}@";
constexpr std::string_view kScheme = "[A-Za-z][A-Za-z0-9+.-]{0,15}://";
/// A path and a query of at most 128 characters each, and a fragment of 64.
constexpr std::string_view kUriRest =
    "(?::\\d{1,5})?(?:/[A-Za-z0-9._~!$&'()*+,;=:@/-]{0,127})?(?:\\?[A-Za-z0-9._~!$&'()*+,;=:@/?-]{0,127})?"
    "(?:#[A-Za-z0-9._~!$&'()*+,;=:@/?-]{0,63})?";
constexpr std::string_view kHours = "T(?:\\d{1,4}H(?:\\d{1,4}M(?:\\d{1,4}S)?)?|\\d{1,4}M(?:\\d{1,4}S)?|\\d{1,4}S)";
constexpr std::string_view kDays = "(?:\\d{1,4}Y(?:\\d{1,4}M(?:\\d{1,4}D)?)?|\\d{1,4}M(?:\\d{1,4}D)?|\\d{1,4}D)";

/// Patterns, one after the other, and the characters of the shortest and the longest string. Several of one name are
/// choices.
struct Format {
  std::string_view name;
  int32_t least, most;
  std::string_view pieces[3];
};
constexpr Format kFormats[] = {
    {"date", 10, 10, {kDate}},
    {"time", 9, 21, {kTime}},
    {"date-time", 20, 32, {kDate, "T", kTime}},
    {"duration", 3, 32, {"P", kDays, kHours}},
    {"duration", 3, 16, {"P", kDays}},
    {"duration", 4, 17, {"P", kHours}},
    {"duration", 3, 6, {"P\\d{1,4}W"}},
    {"uuid", 36, 36, {kUuid}},
    {"ipv4", 7, 15, {kIpv4}},
    {"ipv6", 2, 39, {kIpv6}},
    {"email", 3, 371, {kMailbox, kHost}},
    {"hostname", 1, 247, {kHost}},
    {"uri", 5, 592, {kScheme, kHost, kUriRest}},
};

/// Adds a format's patterns in a row.
Status add_pieces(const Format& format, Grammar* grammar, Expression* out) {
  ExpressionList list;
  for (const std::string_view piece : format.pieces) {
    Expression e = kNoExpression;
    if (!piece.empty()) OCELLUS_TRY(read_regex(piece, {.in_json_string = true}, grammar, &e));
    if (!piece.empty()) grammar->append(&list, e);
  }
  *out = grammar->sequence(list);
  return grammar->status();
}

}  // namespace

Status add_format(std::string_view name, Grammar* grammar, Expression* out) {
  ExpressionList choices;
  bool is_known = false;
  for (const Format& format : kFormats) {
    if (format.name != name) continue;
    Expression e = kNoExpression;
    OCELLUS_TRY(add_pieces(format, grammar, &e));
    grammar->append(&choices, e);
    is_known = true;
  }
  if (!is_known)
    return OCELLUS_FAIL(Code::kUnsupported,
                        "the format is not supported: write date, time, date-time, duration, uuid, ipv4, ipv6, email, "
                        "hostname or uri");
  *out = grammar->choice(choices);
  return grammar->status();
}

bool fits_format(std::string_view name, int32_t least, int32_t most) {
  bool fits = false;
  for (const Format& format : kFormats) {
    if (format.name != name) continue;
    if (format.least < least || format.most > most) return false;
    fits = true;
  }
  return fits;
}

}  // namespace ocellus

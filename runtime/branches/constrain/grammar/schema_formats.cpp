#include "runtime/branches/constrain/grammar/schema_formats.h"

#include <algorithm>

#include "runtime/branches/constrain/grammar/regex.h"

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
constexpr std::string_view kUuidRest = "[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}";
constexpr std::string_view kPath = "(?:/?[A-Za-z0-9._~-]{1,60}){1,8}(?:#[A-Za-z0-9._~-]{0,60})?";
constexpr std::string_view kMailbox = "[A-Za-z0-9_%+-]{1,30}(?:\\.[A-Za-z0-9_%+-]{1,30}){0,3}@";
constexpr std::string_view kScheme = "[A-Za-z][A-Za-z0-9+.-]{0,15}://";
/// A path and a query of at most 128 characters each, and a fragment of 64.
constexpr std::string_view kUriRest =
    "(?::\\d{1,5})?(?:/[A-Za-z0-9._~!$&'()*+,;=:@/-]{0,127})?(?:\\?[A-Za-z0-9._~!$&'()*+,;=:@/?-]{0,127})?"
    "(?:#[A-Za-z0-9._~!$&'()*+,;=:@/?-]{0,63})?";
constexpr std::string_view kHours = "T(?:\\d{1,4}H(?:\\d{1,4}M(?:\\d{1,4}S)?)?|\\d{1,4}M(?:\\d{1,4}S)?|\\d{1,4}S)";
constexpr std::string_view kDays = "(?:\\d{1,4}Y(?:\\d{1,4}M(?:\\d{1,4}D)?)?|\\d{1,4}M(?:\\d{1,4}D)?|\\d{1,4}D)";

constexpr std::string_view kBase64 =
    "(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?";
constexpr std::string_view kPointer = "(?:/(?:[A-Za-z0-9._ -]|~[01]){0,60}){0,16}";

/// Parts are not counted where the characters of a whole string are.
constexpr std::string_view kAnyHost = "[A-Za-z0-9](?:-*[A-Za-z0-9])*(?:\\.[A-Za-z0-9](?:-*[A-Za-z0-9])*)*";
constexpr std::string_view kAnyMailbox = "[A-Za-z0-9_%+-]+(?:\\.[A-Za-z0-9_%+-]+)*@";
constexpr std::string_view kAnyScheme = "[A-Za-z][A-Za-z0-9+.-]*://";
constexpr std::string_view kAnyUriRest =
    "(?::\\d{1,5})?(?:/[A-Za-z0-9._~!$&'()*+,;=:@/-]*)?(?:\\?[A-Za-z0-9._~!$&'()*+,;=:@/?-]*)?"
    "(?:#[A-Za-z0-9._~!$&'()*+,;=:@/?-]*)?";

/// Patterns, one after the other. Several of one name are choices.
struct Format {
  std::string_view name;
  std::string_view pieces[3];
  std::string_view counted[3] = {};  // in place of them where the characters are counted; empty: the same
};
constexpr Format kFormats[] = {
    {"date", {kDate}},
    {"time", {kTime}},
    {"date-time", {kDate, "T", kTime}},
    {"duration", {"P", kDays, kHours}},
    {"duration", {"P", kDays}},
    {"duration", {"P", kHours}},
    {"duration", {"P\\d{1,4}W"}},
    {"uuid", {kUuid}},
    {"uuid1", {"[0-9a-f]{8}-[0-9a-f]{4}-1", kUuidRest}},
    {"uuid3", {"[0-9a-f]{8}-[0-9a-f]{4}-3", kUuidRest}},
    {"uuid4", {"[0-9a-f]{8}-[0-9a-f]{4}-4", kUuidRest}},
    {"uuid5", {"[0-9a-f]{8}-[0-9a-f]{4}-5", kUuidRest}},
    {"uuid6", {"[0-9a-f]{8}-[0-9a-f]{4}-6", kUuidRest}},
    {"uuid7", {"[0-9a-f]{8}-[0-9a-f]{4}-7", kUuidRest}},
    {"uuid8", {"[0-9a-f]{8}-[0-9a-f]{4}-8", kUuidRest}},
    {"ipv4", {kIpv4}},
    {"ipv6", {kIpv6}},
    {"ipvanyaddress", {kIpv4}},
    {"ipvanyaddress", {kIpv6}},
    {"email", {kMailbox, kHost}, {kAnyMailbox, kAnyHost}},
    {"idn-email", {kMailbox, kHost}, {kAnyMailbox, kAnyHost}},
    {"hostname", {kHost}},
    {"idn-hostname", {kHost}},
    {"uri", {kScheme, kHost, kUriRest}, {kAnyScheme, kAnyHost, kAnyUriRest}},
    {"iri", {kScheme, kHost, kUriRest}, {kAnyScheme, kAnyHost, kAnyUriRest}},
    {"uri-reference", {kScheme, kHost, kUriRest}},
    {"uri-reference", {kPath}},
    {"iri-reference", {kScheme, kHost, kUriRest}},
    {"iri-reference", {kPath}},
    {"json-pointer", {kPointer}},
    {"base64", {kBase64}},
};

/// Adds a format's patterns in a row.
Status add_pieces(const Format& format, const FormatOptions& options, Grammar* grammar, Expression* out) {
  ExpressionList list;
  for (const std::string_view piece :
       options.is_counted && !format.counted[0].empty() ? format.counted : format.pieces) {
    Expression e = kNoExpression;
    if (!piece.empty()) OCELLUS_TRY(read_regex(piece, {.in_json_string = options.in_json_string}, grammar, &e));
    if (!piece.empty()) grammar->append(&list, e);
  }
  *out = grammar->sequence(list);
  return grammar->status();
}

}  // namespace

bool is_format(std::string_view name) {
  return std::any_of(std::begin(kFormats), std::end(kFormats), [&](const Format& f) { return f.name == name; });
}

Status add_format(std::string_view name, const FormatOptions& options, Grammar* grammar, Expression* out) {
  ExpressionList choices;
  for (const Format& format : kFormats) {
    if (format.name != name) continue;
    Expression e = kNoExpression;
    OCELLUS_TRY(add_pieces(format, options, grammar, &e));
    grammar->append(&choices, e);
  }
  *out = grammar->choice(choices);
  return grammar->status();
}

}  // namespace ocellus

// Which schemas hold at a place: $ref and allOf.
#include <algorithm>
#include <cstring>

#include "runtime/grammar/decimal.h"
#include "runtime/grammar/schema_reader.h"

namespace ocellus {
namespace {

constexpr int32_t kMaxParts = 64;  // of a place
constexpr int kMaxVisits = 1024;   // of schemas that bring in the parts of a place
constexpr int kMaxLinks = 64;      // of a chain of $ref and allOf

int hex_value(char c) {
  const char* const digits = "0123456789abcdef";
  const void* const at = std::memchr(digits, c >= 'A' && c <= 'F' ? c | 0x20 : c, 16);
  return at == nullptr ? -1 : static_cast<int>(static_cast<const char*>(at) - digits);
}

/// Replaces %41 by A, in `out` of the text's size; false if that is not what follows a percent sign.
bool decode_percents(std::string_view text, char* out, size_t* length) {
  *length = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out[(*length)++] = text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? hex_value(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? hex_value(text[i + 2]) : -1;
    if (high < 0 || low < 0) return false;
    out[(*length)++] = static_cast<char>(high * 16 + low);
    i += 2;
  }
  return true;
}

}  // namespace

/// Schema that brought in another one.
struct SchemaReader::Link {
  int32_t node;
  const Link* up;
  int depth;
};

Status SchemaReader::refuse(int32_t place, const char* what) const {
  return OCELLUS_FAIL(Code::kUnsupported, "%s: %s", document_.path(place).text, what);
}

Status SchemaReader::reject(int32_t place, const char* what) const {
  return OCELLUS_FAIL(Code::kBadArgument, "%s: %s", document_.path(place).text, what);
}

Status SchemaReader::no_value(int32_t place, const char* why) {
  is_empty_ = true;
  return OCELLUS_FAIL(Code::kBadArgument, "no value satisfies %s: %s", document_.path(place).text, why);
}

Status SchemaReader::begin_parts(SchemaParts* out) {
  visits_ = 0;
  return memory_.take(kMaxParts, &out->at);
}

void SchemaReader::end_parts(const SchemaParts& parts) {
  memory_.give_back((kMaxParts - parts.count) * static_cast<int64_t>(sizeof(SchemaPart)));
}

Status SchemaReader::add_part(const SchemaPart& part, SchemaParts* parts) {
  if (!says_something(part) || std::find(parts->begin(), parts->end(), part) != parts->end()) return {};
  if (parts->count == kMaxParts) return refuse(part.node, "more than 64 schemas hold at one place");
  parts->at[parts->count++] = part;
  return {};
}

Status SchemaReader::visit(int32_t index, const Link* up, SchemaParts* parts) {
  const JsonKind kind = node(index).kind;
  if (kind == JsonKind::kTrue) return {};
  if (kind == JsonKind::kFalse) return no_value(index, "the schema is false");
  if (kind != JsonKind::kObject) return reject(index, "a schema is an object, true or false");
  for (const Link* link = up; link != nullptr; link = link->up)
    if (link->node == index) return reject(index, "the schema refers to itself at the same place of the value");
  const Link here = {index, up, up == nullptr ? 1 : up->depth + 1};
  if (here.depth > kMaxLinks || ++visits_ > kMaxVisits)
    return refuse(index, "too many $ref and allOf hold at one place");
  OCELLUS_TRY(check_keywords(index));
  OCELLUS_TRY(visit_applied(index, &here, parts));
  return add_part({index}, parts);
}

Status SchemaReader::visit_applied(int32_t index, const Link* here, SchemaParts* parts) {
  if (const int32_t reference = document_.find(index, "$ref"); reference != kNoJson) {
    int32_t target = kNoJson;
    OCELLUS_TRY(resolve(reference, &target));
    OCELLUS_TRY(visit(target, here, parts));
  }
  const int32_t all_of = document_.find(index, "allOf");
  if (all_of == kNoJson) return {};
  if (node(all_of).kind != JsonKind::kArray || node(all_of).count == 0)
    return reject(all_of, "this is no list of schemas");
  for (int32_t i = node(all_of).first; i != kNoJson; i = node(i).next) OCELLUS_TRY(visit(i, here, parts));
  return {};
}

Status SchemaReader::check_keywords(int32_t index) {
  for (int32_t m = node(index).first; m != kNoJson; m = node(m).next) {
    if (find_keyword(node(m).name).role == KeywordRole::kUnknown) return refuse(m, "the keyword is not known");
    if (node(m).name == "$id" && index != 0) return refuse(m, "only the whole schema can have an $id");
  }
  return {};
}

Status SchemaReader::resolve(int32_t reference, int32_t* out) {
  const JsonNode& text = node(reference);
  if (text.kind != JsonKind::kString) return reject(reference, "a $ref is a string");
  if (text.text.empty() || text.text[0] != '#' || (text.text.size() > 1 && text.text[1] != '/'))
    return refuse(reference, "a $ref can only be a JSON pointer into the schema, \"#/...\"");
  const HostView<std::byte> room = memory_.rest();
  const auto size = static_cast<int64_t>(text.text.size());
  if (room.cols < 2 * size) return OCELLUS_FAIL(Code::kFull, "the workspace of a constraint is too small for a $ref");
  char* const pointer = reinterpret_cast<char*>(room.data);
  size_t length = 0;
  *out = kNoJson;
  if (decode_percents(text.text.substr(1), pointer, &length))
    *out = document_.follow({pointer, length}, pointer + size);
  return *out == kNoJson ? reject(reference, "there is nothing in the schema where the $ref points to") : Status();
}

bool SchemaReader::says_something(const SchemaPart& part) const {
  for (int32_t m = node(part.node).first; m != kNoJson; m = node(m).next) {
    const KeywordRole role = find_keyword(node(m).name).role;
    if (role == KeywordRole::kRule || role == KeywordRole::kRefused) return true;
    if (role == KeywordRole::kChoice && !(node(m).name == "anyOf" ? part.has_any_of : part.has_one_of)) return true;
  }
  return false;
}

Status SchemaReader::read_count(int32_t index, int32_t* out) const {
  Decimal value;
  const bool is_number = node(index).kind == JsonKind::kNumber;
  const DecimalFit fit = is_number ? read_decimal(node(index).text, &value) : DecimalFit::kFits;
  if (!is_number || value.is_negative || !value.is_integer() || fit == DecimalFit::kTooFine)
    return reject(index, "a count is a whole number, 0 at least");
  if (fit == DecimalFit::kTooLarge || value.whole >= static_cast<uint64_t>(kUnbounded))
    return refuse(index, "the count is larger than 2147483646");
  *out = static_cast<int32_t>(value.whole);
  return {};
}

Status SchemaReader::read_counts(const SchemaParts& parts, std::string_view least, std::string_view most,
                                 CountRange* out) {
  for (const SchemaPart& part : parts) {
    int32_t count = 0;
    if (const int32_t index = document_.find(part.node, least); index != kNoJson) {
      OCELLUS_TRY(read_count(index, &count));
      if (count > out->least) out->least = count, out->least_node = index;
    }
    if (const int32_t index = document_.find(part.node, most); index != kNoJson) {
      OCELLUS_TRY(read_count(index, &count));
      if (count < out->most) out->most = count, out->most_node = index;
    }
  }
  if (out->least > out->most) return no_value(out->least_node, "the least count is larger than the most");
  return {};
}

}  // namespace ocellus

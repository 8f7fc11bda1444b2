#include "runtime/branches/constrain/grammar/schema_parts.h"

#include <algorithm>
#include <cstring>

#include "platform/hex_digit.h"
#include "runtime/branches/constrain/grammar/decimal.h"

namespace ocellus {
namespace {

constexpr int kMaxVisits = 1024;  // schemas that bring in the parts of a place
constexpr int kMaxLinks = 64;     // longest chain of $ref and allOf
constexpr int64_t kKeywordSteps = 16;
constexpr int64_t kSimilarSteps = 16384;  // a name is compared with all keywords

/// Replaces %41 by A, in `out` of the text's size; false if that is not what follows a percent sign.
bool decode_percents(std::string_view text, char* out, size_t* length) {
  *length = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out[(*length)++] = text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
    if (high < 0 || low < 0) return false;
    out[(*length)++] = static_cast<char>(high * 16 + low);
    i += 2;
  }
  return true;
}

}  // namespace

/// Schema that brought in another one.
struct PartsCollector::Link {
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

bool SchemaReader::is_false(int32_t index) const {
  if (node(index).kind == JsonKind::kFalse) return true;
  const int32_t denied = document_.find(index, "not");
  return denied != kNoJson && is_true(denied);
}

bool SchemaReader::is_true(int32_t index) const {
  return node(index).kind == JsonKind::kTrue || (node(index).kind == JsonKind::kObject && node(index).count == 0);
}

Status SchemaReader::no_value(int32_t place, const char* why) {
  is_empty_ = true;
  return OCELLUS_FAIL(Code::kBadArgument, "no value satisfies %s: %s", document_.path(place).text, why);
}

SchemaParts PartsCollector::end() {
  reader_.memory().give_back((kMaxParts - parts_.count) * static_cast<int64_t>(sizeof(SchemaPart)));
  return parts_;
}

Status PartsCollector::add(const SchemaPart& part) {
  if (!reader_.grammar().spend(kKeywordSteps * reader_.node(part.node).count + parts_.count))
    return reader_.grammar().status();
  if (!says_something(part) || std::find(parts_.begin(), parts_.end(), part) != parts_.end()) return {};
  if (parts_.count == kMaxParts) return reader_.refuse(part.node, "more than 64 schemas hold at one place");
  parts_.at[parts_.count++] = part;
  return {};
}

Status PartsCollector::visit(int32_t index, const Link* up) {
  const JsonKind kind = reader_.node(index).kind;
  if (kind == JsonKind::kTrue) return {};
  if (reader_.is_false(index)) return reader_.no_value(index, "the schema is false");
  if (kind != JsonKind::kObject) return reader_.reject(index, "a schema is an object, true or false");
  for (const Link* link = up; link != nullptr; link = link->up)
    if (link->node == index) return reader_.reject(index, "the schema refers to itself at the same place of the value");
  const Link here = {index, up, up == nullptr ? 1 : up->depth + 1};
  if (here.depth > kMaxLinks || ++visits_ > kMaxVisits)
    return reader_.refuse(index, "too many $ref and allOf hold at one place");
  OCELLUS_TRY(check_keywords(index));
  OCELLUS_TRY(visit_applied(index, &here));
  return add({index});
}

Status PartsCollector::visit_applied(int32_t index, const Link* here) {
  if (const int32_t reference = reader_.document().find(index, "$ref"); reference != kNoJson) {
    int32_t target = kNoJson;
    OCELLUS_TRY(resolve(reference, &target));
    OCELLUS_TRY(visit(target, here));
  }
  const int32_t all_of = reader_.document().find(index, "allOf");
  if (all_of == kNoJson) return {};
  if (reader_.node(all_of).kind != JsonKind::kArray || reader_.node(all_of).count == 0)
    return reader_.reject(all_of, "this is no list of schemas");
  for (int32_t i = reader_.node(all_of).first; i != kNoJson; i = reader_.node(i).next) OCELLUS_TRY(visit(i, here));
  return {};
}

Status PartsCollector::check_keywords(int32_t index) const {
  if (!reader_.grammar().spend(kKeywordSteps * reader_.node(index).count)) return reader_.grammar().status();
  for (int32_t m = reader_.node(index).first; m != kNoJson; m = reader_.node(m).next) {
    const std::string_view name = reader_.node(m).name;
    if (find_keyword(name).role == KeywordRole::kUnknown && reader_.grammar().spend(kSimilarSteps)) {
      const std::string_view meant = find_similar_keyword(name);
      if (!meant.empty())
        return OCELLUS_FAIL(Code::kUnsupported, "%s: the keyword is not known: did you mean %.*s?",
                            reader_.document().path(m).text, static_cast<int>(meant.size()), meant.data());
    }
    if (reader_.node(m).name == "$id" && index != 0) return reader_.refuse(m, "only the whole schema can have an $id");
  }
  return {};
}

Status PartsCollector::resolve(int32_t reference, int32_t* out) {
  const JsonNode& text = reader_.node(reference);
  if (text.kind != JsonKind::kString) return reader_.reject(reference, "a $ref is a string");
  if (text.text.empty() || text.text[0] != '#' || (text.text.size() > 1 && text.text[1] != '/'))
    return reader_.refuse(reference, "a $ref can only be a JSON pointer into the schema, \"#/...\"");
  const HostView<std::byte> room = reader_.memory().rest();
  const auto size = static_cast<int64_t>(text.text.size());
  if (room.cols < 2 * size) return OCELLUS_FAIL(Code::kFull, "the memory of a constraint is too small for a $ref");
  char* const pointer = reinterpret_cast<char*>(room.data);
  size_t length = 0;
  int64_t steps = size;
  *out = kNoJson;
  if (decode_percents(text.text.substr(1), pointer, &length))
    *out = reader_.document().follow({pointer, length}, pointer + size, &steps);
  if (!reader_.grammar().spend(steps)) return reader_.grammar().status();
  return *out == kNoJson ? reader_.reject(reference, "there is nothing in the schema where the $ref points to")
                         : Status();
}

bool PartsCollector::says_something(const SchemaPart& part) const {
  for (int32_t m = reader_.node(part.node).first; m != kNoJson; m = reader_.node(m).next) {
    const KeywordRole role = find_keyword(reader_.node(m).name).role;
    if ((role == KeywordRole::kRule || role == KeywordRole::kRefused) && !reader_.is_harmless(m)) return true;
    if (role == KeywordRole::kChoice && !(reader_.node(m).name == "anyOf" ? part.has_any_of : part.has_one_of))
      return true;
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

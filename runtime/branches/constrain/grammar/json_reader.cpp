#include "runtime/branches/constrain/grammar/json_reader.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>

#include "kernels/base/hash_term.h"
#include "platform/hex_digit.h"
#include "platform/utf8.h"
#include "quant/name_table.h"
#include "runtime/branches/constrain/grammar/decimal.h"
#include "runtime/branches/constrain/grammar/text_after.h"
#include "runtime/branches/constrain/grammar/text_cursor.h"

namespace ocellus {
namespace {

/// The value of four hexadecimal digits, -1 if they are not.
int32_t read_hex(std::string_view text) {
  if (text.size() < 4) return -1;
  int32_t value = 0;
  for (int i = 0; i < 4; ++i) {
    const int digit = hex_digit(text[static_cast<size_t>(i)]);
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

/// A member's hash: equal names of other objects are other members.
uint64_t hash_member(int32_t object, std::string_view name) {
  return mix_bits(hash_name(name) + static_cast<uint64_t>(object));
}

/// Names that fall into one list; by chance they are few.
constexpr int32_t kMostAlike = 256;

constexpr std::string_view kEscaped = "\"\\/bfnrt";
constexpr std::string_view kUnescaped = "\"\\/\b\f\n\r\t";

/// The character of the escape at the start of `text`, after its backslash, and its length; -1 if it is none.
int32_t read_escape(std::string_view text, size_t* length) {
  *length = 1;
  if (text.empty()) return -1;
  if (const size_t at = kEscaped.find(text[0]); at != kEscaped.npos) return kUnescaped[at];
  if (text[0] != 'u') return -1;
  const int32_t unit = read_hex(text_after(text, 1));
  *length = 5;
  if (unit < 0xD800 || unit > 0xDFFF) return unit;
  if (unit >= 0xDC00 || text_after(text, 5).substr(0, 2) != "\\u") return -1;
  const int32_t low = read_hex(text_after(text, 7));
  *length = 11;
  return low >= 0xDC00 && low <= 0xDFFF ? 0x10000 + (unit - 0xD800) * 0x400 + (low - 0xDC00) : -1;
}

}  // namespace

class JsonReader {
 public:
  JsonReader(std::string_view text, JsonDocument* document) : text_(text), document_(*document) {}

  Status read() {
    OCELLUS_TRY(read_value(kNoJson, {}, 0, nullptr));
    skip_space();
    return at_ == text_.size() ? Status() : fail("something follows the value");
  }

 private:
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void skip_space() {
    while (at_ < text_.size() && std::string_view(" \t\n\r").find(text_[at_]) != std::string_view::npos) ++at_;
  }

  Status fail(const char* what) const {
    const TextPlace place = place_of(text_, at_);
    return OCELLUS_FAIL(Code::kBadArgument, "line %d, column %d: %s", place.line, place.column, what);
  }
  Status fail_full() const {
    return OCELLUS_FAIL(Code::kFull, "the JSON text of %lld bytes is too large for the memory of a constraint",
                        static_cast<long long>(text_.size()));
  }

  Status add_node(int32_t parent, std::string_view name, int32_t* index) {
    if (document_.end_ - document_.begin_ < static_cast<std::ptrdiff_t>(sizeof(JsonNode))) return fail_full();
    JsonNode* node = new (document_.begin_) JsonNode();
    document_.begin_ += sizeof(JsonNode);
    node->parent = parent;
    node->name = name;
    *index = document_.node_count_++;
    if (parent == kNoJson || document_.nodes_[parent].kind != JsonKind::kObject) return {};
    node->name_hash = hash_member(parent, name);
    int32_t& list = document_.list_of(node->name_hash);
    node->next_alike = list;
    list = *index;
    return {};
  }

  Status read_value(int32_t parent, std::string_view name, int depth, int32_t* added) {
    int32_t index = 0;
    OCELLUS_TRY(add_node(parent, name, &index));
    if (added != nullptr) *added = index;
    skip_space();
    JsonNode& node = document_.nodes_[index];
    const char c = peek();
    if (c == '{' || c == '[') return read_list(index, depth + 1);
    if (c == '"') return node.kind = JsonKind::kString, read_string(&node.text);
    if (c == '-' || is_digit(c)) return node.kind = JsonKind::kNumber, read_number(&node.text);
    if (read_word("null")) return node.kind = JsonKind::kNull, Status();
    if (read_word("true")) return node.kind = JsonKind::kTrue, Status();
    if (read_word("false")) return node.kind = JsonKind::kFalse, Status();
    return fail(at_ == text_.size() ? "the text ends where a value is missing" : "this is no JSON value");
  }

  bool read_word(std::string_view word) {
    if (text_after(text_, at_).substr(0, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  Status read_list(int32_t index, int depth) {
    if (depth > kMaxJsonDepth) return fail("arrays and objects nest too deep, 128 levels are the most");
    JsonNode& list = document_.nodes_[index];
    const bool is_object = peek() == '{';
    const char end = is_object ? '}' : ']';
    list.kind = is_object ? JsonKind::kObject : JsonKind::kArray;
    ++at_;
    skip_space();
    if (take(end)) return {};
    int32_t last = kNoJson;
    do {
      std::string_view name;
      if (is_object) OCELLUS_TRY(read_name(index, &name));
      int32_t item = kNoJson;
      OCELLUS_TRY(read_value(index, name, depth, &item));
      (last == kNoJson ? list.first : document_.nodes_[last].next) = item;
      last = item;
      ++list.count;
      skip_space();
    } while (take(','));
    if (take(end)) return {};
    return fail(is_object ? "a comma or the object's end is missing" : "a comma or the array's end is missing");
  }

  Status read_name(int32_t object, std::string_view* name) {
    skip_space();
    const size_t begin = at_;
    if (peek() != '"') return fail("a member's name is missing");
    OCELLUS_TRY(read_string(name));
    int32_t looked_at = 0;
    if (document_.find(object, *name, &looked_at) != kNoJson) {
      at_ = begin;
      return fail("this name stands twice in its object");
    }
    if (looked_at > kMostAlike) return fail("too many names are made so that looking for them is slow");
    if (document_.node(object).count == kMaxJsonMembers)
      return fail("an object has too many members, 4096 are the most");
    skip_space();
    return take(':') ? Status() : fail("a colon is missing");
  }

  Status read_string(std::string_view* out) {
    const size_t begin = ++at_;
    bool is_plain = true;
    while (peek() != '"') {
      if (at_ == text_.size()) return fail("a string without an end");
      if (static_cast<uint8_t>(text_[at_]) < 0x20) return fail("a control character in a string must be escaped");
      size_t length = 0;
      if (text_[at_] == '\\') {
        if (read_escape(text_after(text_, at_ + 1), &length) < 0)
          return fail("this is no escape of JSON, or half of a surrogate pair");
        is_plain = false;
        ++at_;
      } else {
        int bytes = 0;
        if (decode_utf8(text_after(text_, at_), &bytes) == kInvalidCodePoint) return fail("this is not UTF-8");
        length = static_cast<size_t>(bytes);
      }
      at_ += length;
    }
    const std::string_view raw = text_after(text_, begin).substr(0, at_++ - begin);
    if (!is_plain) return decode(raw, out);
    *out = raw;
    return {};
  }

  Status decode(std::string_view raw, std::string_view* out) {
    const auto room = static_cast<std::ptrdiff_t>((raw.size() + 7) / 8 * 8);
    if (document_.end_ - document_.begin_ < room) return fail_full();
    document_.end_ -= room;
    char* const text = reinterpret_cast<char*>(document_.end_);
    char* end = text;
    while (!raw.empty()) {
      size_t length = 1;
      if (raw[0] == '\\') {
        end += encode_utf8(static_cast<uint32_t>(read_escape(text_after(raw, 1), &length)),
                           reinterpret_cast<uint8_t*>(end));
        ++length;
      } else {
        *end++ = raw[0];
      }
      raw.remove_prefix(length);
    }
    *out = {text, static_cast<size_t>(end - text)};
    return {};
  }

  Status read_digits() {
    if (!is_digit(peek())) return fail("a digit is missing");
    while (is_digit(peek())) ++at_;
    return {};
  }

  Status read_number(std::string_view* out) {
    const size_t begin = at_;
    take('-');
    if (take('0')) {
      if (is_digit(peek())) return fail("a number has a zero before its digits");
    } else {
      OCELLUS_TRY(read_digits());
    }
    if (take('.')) OCELLUS_TRY(read_digits());
    if (take('e') || take('E')) {
      if (!take('-')) take('+');
      OCELLUS_TRY(read_digits());
    }
    *out = text_after(text_, begin).substr(0, at_ - begin);
    return {};
  }

  std::string_view text_;
  size_t at_ = 0;
  JsonDocument& document_;
};

Status JsonDocument::read(std::string_view text, HostView<std::byte> memory) {
  constexpr int64_t kFewestLists = 16, kMostLists = 16384, kBytesOfList = 512;
  list_count_ = std::clamp(memory.cols / kBytesOfList / 2 * 2, kFewestLists, kMostLists);
  const auto list_bytes = list_count_ * static_cast<int64_t>(sizeof(int32_t));
  if (memory.cols < list_bytes)
    return OCELLUS_FAIL(Code::kFull, "the memory of a constraint, %lld bytes, is too small for JSON",
                        static_cast<long long>(memory.cols));
  lists_ = reinterpret_cast<int32_t*>(memory.data);
  std::fill(lists_, lists_ + list_count_, kNoJson);
  begin_ = memory.data + list_bytes;
  nodes_ = reinterpret_cast<JsonNode*>(begin_);
  node_count_ = 0;
  end_ = memory.data + memory.cols / 8 * 8;
  return JsonReader(text, this).read();
}

int32_t JsonDocument::find(int32_t object, std::string_view name, int32_t* looked_at) const {
  if (nodes_[object].kind != JsonKind::kObject) return kNoJson;
  const uint64_t hash = hash_member(object, name);
  int32_t m = list_of(hash);
  for (; m != kNoJson; m = nodes_[m].next_alike) {
    if (nodes_[m].name_hash == hash && nodes_[m].parent == object && nodes_[m].name == name) break;
    if (looked_at != nullptr) ++*looked_at;
  }
  return m;
}

int32_t JsonDocument::find_step(int32_t from, std::string_view token, int64_t* steps) const {
  if (nodes_[from].kind != JsonKind::kArray) return find(from, token);
  if (token.empty() || token.size() > 9 || (token[0] == '0' && token.size() > 1)) return kNoJson;
  int32_t left = 0;
  for (const char c : token) {
    if (!is_digit(c)) return kNoJson;
    left = left * 10 + (c - '0');
  }
  int32_t item = nodes_[from].first;
  if (steps != nullptr) *steps += std::min(left, nodes_[from].count);
  for (; left > 0 && item != kNoJson; --left) item = nodes_[item].next;
  return item;
}

int32_t JsonDocument::follow(std::string_view pointer, char* token, int64_t* steps) const {
  int32_t at = 0;
  while (!pointer.empty() && at != kNoJson) {
    if (pointer[0] != '/') return kNoJson;
    pointer.remove_prefix(1);
    const std::string_view raw = pointer.substr(0, pointer.find('/'));
    pointer.remove_prefix(raw.size());
    size_t length = 0;
    for (size_t i = 0; i < raw.size(); ++i) {
      if (raw[i] != '~') {
        token[length++] = raw[i];
        continue;
      }
      ++i;
      if (i == raw.size() || (raw[i] != '0' && raw[i] != '1')) return kNoJson;
      token[length++] = raw[i] == '0' ? '~' : '/';
    }
    at = find_step(at, {token, length}, steps);
  }
  return at;
}

JsonPath JsonDocument::path(int32_t index) const {
  JsonPath path;
  int32_t chain[kMaxJsonDepth + 1];
  int count = 0;
  for (; index > 0; index = nodes_[index].parent) chain[count++] = index;
  size_t length = 0;
  const auto put = [&](char c) {
    if (length + 1 < sizeof path.text) path.text[length++] = c;
  };
  put('#');
  while (count > 0) {
    const JsonNode& node = nodes_[chain[--count]];
    put('/');
    if (nodes_[node.parent].kind == JsonKind::kArray) {
      int32_t position = 0;
      for (int32_t i = nodes_[node.parent].first; i != chain[count]; i = nodes_[i].next) ++position;
      char digits[12];
      std::snprintf(digits, sizeof digits, "%d", static_cast<int>(position));
      for (const char* d = digits; *d != '\0'; ++d) put(*d);
      continue;
    }
    for (const char c : node.name) {
      if (c == '~' || c == '/') put('~');
      put(c == '~' ? '0' : c == '/' ? '1' : c);
    }
  }
  path.text[length] = '\0';
  return path;
}

namespace {

class JsonWriter {
 public:
  JsonWriter(char* out, int64_t capacity) : out_(out), capacity_(capacity) {}

  int64_t bytes() const { return used_ <= capacity_ ? used_ : -1; }

  void put(std::string_view text) {
    const auto size = static_cast<int64_t>(text.size());
    if (!text.empty() && used_ + size <= capacity_) std::memcpy(out_ + used_, text.data(), text.size());
    used_ += size;
  }

  void put_string(std::string_view text) {
    put("\"");
    for (const char& c : text) {
      const size_t at = kUnescaped.find(c);
      if (at != kUnescaped.npos && c != '/') {
        const char escape[] = {'\\', kEscaped[at]};
        put({escape, 2});
      } else if (static_cast<uint8_t>(c) < 0x20) {
        char escape[8];
        std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c));
        put(escape);
      } else {
        put({&c, 1});
      }
    }
    put("\"");
  }

  void put_value(const JsonDocument& document, int32_t index) {
    const JsonNode& node = document.node(index);
    switch (node.kind) {
      case JsonKind::kNull: return put("null");
      case JsonKind::kFalse: return put("false");
      case JsonKind::kTrue: return put("true");
      case JsonKind::kNumber: return put(node.text);
      case JsonKind::kString: return put_string(node.text);
      case JsonKind::kArray:
      case JsonKind::kObject: break;
    }
    const bool is_object = node.kind == JsonKind::kObject;
    put(is_object ? "{" : "[");
    for (int32_t item = node.first; item != kNoJson; item = document.node(item).next) {
      if (item != node.first) put(", ");
      if (is_object) {
        put_string(document.node(item).name);
        put(": ");
      }
      put_value(document, item);
    }
    put(is_object ? "}" : "]");
  }

 private:
  char* out_;
  int64_t capacity_, used_ = 0;
};

}  // namespace

int64_t write_json(const JsonDocument& document, int32_t index, char* out, int64_t capacity) {
  JsonWriter writer(out, capacity);
  writer.put_value(document, index);
  return writer.bytes();
}

int64_t write_json_string(std::string_view text, char* out, int64_t capacity) {
  JsonWriter writer(out, capacity);
  writer.put_string(text);
  return writer.bytes();
}

}  // namespace ocellus

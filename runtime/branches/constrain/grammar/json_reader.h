// JSON text (RFC 8259) as nodes in memory that the caller gives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "platform/status.h"
#include "platform/views.h"

namespace ocellus {

/// Arrays and objects nest at most this deep.
inline constexpr int kMaxJsonDepth = 128;
/// Maximum number of members of an object.
inline constexpr int32_t kMaxJsonMembers = 4096;
inline constexpr int32_t kNoJson = -1;

enum class JsonKind : uint8_t { kNull, kFalse, kTrue, kNumber, kString, kArray, kObject };

struct JsonNode {
  JsonKind kind = JsonKind::kNull;
  int32_t next_alike = kNoJson;              // a member before it whose name falls into the same list
  uint64_t name_hash = 0;                    // hash of name and parent
  int32_t parent = kNoJson, next = kNoJson;  // next: of the same array or object
  int32_t first = kNoJson, count = 0;        // items or members
  std::string_view name;                     // decoded, empty unless it is a member
  std::string_view text;                     // number: as written; string: decoded
};

/// Place of a node in its document, a JSON pointer ("#/properties/a~1b/items/0"); cut at its end if it is long.
struct JsonPath {
  char text[200];
};

class JsonDocument {
 public:
  /// Reads the text, which must outlive the document, as must the memory (aligned to 8 bytes). kBadArgument with line
  /// and column after anything that is not strict JSON: lone surrogates, invalid UTF-8 and names given twice too;
  /// kFull if the memory is too small.
  Status read(std::string_view text, HostView<std::byte> memory);

  /// The whole value is node 0.
  const JsonNode& node(int32_t index) const { return nodes_[index]; }
  /// The member of that name, kNoJson if there is none or the node is no object.
  /// Adds to *looked_at how many others were looked at, if it is not null.
  int32_t find(int32_t object, std::string_view name, int32_t* looked_at = nullptr) const;
  /// Follows a JSON pointer (RFC 6901) from the root, kNoJson if it leads nowhere. `token` has room for `pointer`. Adds
  /// the nodes that were passed to *steps, if it is not null.
  int32_t follow(std::string_view pointer, char* token, int64_t* steps = nullptr) const;
  JsonPath path(int32_t index) const;
  /// The memory that read() left, aligned to 8 bytes.
  HostView<std::byte> free_memory() const { return {begin_, 1, end_ - begin_}; }

 private:
  friend class JsonReader;
  int32_t find_step(int32_t from, std::string_view token, int64_t* steps) const;
  int32_t& list_of(uint64_t name_hash) const { return lists_[name_hash % static_cast<uint64_t>(list_count_)]; }

  JsonNode* nodes_ = nullptr;
  int32_t* lists_ = nullptr;  // newest member of each
  int64_t list_count_ = 0;
  int32_t node_count_ = 0;
  std::byte *begin_ = nullptr, *end_ = nullptr;  // nodes end, decoded strings begin
};

/// Writes the value as Python's json.dumps(ensure_ascii=False) spells it, numbers as they were written, and returns its
/// bytes; -1 if the room is too small.
int64_t write_json(const JsonDocument& document, int32_t index, char* out, int64_t capacity);
/// The same for one string.
int64_t write_json_string(std::string_view text, char* out, int64_t capacity);

}  // namespace ocellus

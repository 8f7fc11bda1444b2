// A hash table from names to indices, filled once and then only read. It keeps references to the names.
#pragma once

#include <cstdint>
#include <string_view>

#include "platform/buffer.h"
#include "platform/status.h"

namespace ocellus {

/// FNV-1a with a final mix, so that the low bits depend on every character.
uint64_t hash_name(std::string_view name);

class NameTable {
 public:
  /// Empties the table and makes room for `count` names; at most half of the slots will be used.
  Status create(int64_t count);

  /// Inserts `name` with `index` (>= 0) unless it is present; *earlier is its existing index, else -1. kBadFile if the
  /// names collide so often that look-ups would be slow, which takes names made for the purpose.
  Status insert(std::string_view name, int32_t index, int32_t* earlier);

  /// Returns the index of `name`, -1 if absent.
  int32_t find(std::string_view name) const;

 private:
  struct Slot {
    std::string_view name;
    uint64_t hash = 0;
    int32_t index = -1;
  };
  const Slot* probe(std::string_view name, uint64_t hash) const;

  Buffer<Slot> slots_;  // open addressing; the size is a power of two
};

}  // namespace ocellus

// ByteTrie: texts as a tree of their bytes, so that a walk reads what many begin with once.
#pragma once

#include <cstdint>

#include "runtime/branches/constrain/grammar/growing_array.h"

namespace ocellus {

/// Nodes in depth-first order, children by their bytes. Entries are sorted by their texts: those of node n, which end
/// there, are entries first_entry[n] .. first_entry[n] + own - 1, right before those of its subtree.
struct ByteTrie {
  static constexpr int32_t kMostDepth = 1024;  // bytes of a text

  struct Node {
    int32_t end = 0;          // number of the node after its subtree
    int32_t first_entry = 0;  // the next node's, if it has none
    uint8_t byte = 0;
  };
  const Node* nodes = nullptr;  // and one more after the last
  int64_t node_count = 0;

  /// Entries that end at node n, in order: up to this number, not included.
  int32_t entries_end(int32_t n) const { return nodes[n + 1].first_entry; }
};

/// Makes the nodes of texts that are sorted by bytes, none of them empty; text(i) returns the i-th. False if `nodes`
/// has no room: a node for each byte, at most, and one.
template <class Text>
bool build_trie(int32_t count, Text text, GrowingArray<ByteTrie::Node>* nodes, ByteTrie* out) {
  int32_t open[ByteTrie::kMostDepth];  // nodes on the way to the newest
  int32_t depth = 0;
  for (int32_t i = 0; i < count; ++i) {
    const auto bytes = text(i);
    int32_t shared = 0;
    if (i > 0) {
      const auto before = text(i - 1);
      while (shared < depth && shared < static_cast<int32_t>(bytes.size()) && bytes[shared] == before[shared]) ++shared;
    }
    while (depth > shared) (*nodes)[open[--depth]].end = static_cast<int32_t>(nodes->count());
    while (depth < static_cast<int32_t>(bytes.size()) && depth < ByteTrie::kMostDepth) {
      open[depth] = static_cast<int32_t>(nodes->count());
      if (!nodes->push({.first_entry = i, .byte = static_cast<uint8_t>(bytes[depth])})) return false;
      ++depth;
    }
  }
  while (depth > 0) (*nodes)[open[--depth]].end = static_cast<int32_t>(nodes->count());
  *out = {nodes->data(), nodes->count()};
  return nodes->push({.first_entry = count});
}

}  // namespace ocellus

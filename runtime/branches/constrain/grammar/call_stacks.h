// CallStacks: the calls in which the ways to read a text are.
//
// Stacks share their lower parts: a place on a stack is a node that names the one below it (Tomita 1987, "An efficient
// augmented-context-free parsing algorithm"). Equal stacks are one node, so that equal ways are found by their numbers.
#pragma once

#include "kernels/base/hash_term.h"
#include "platform/arena.h"

namespace ocellus {

/// Calls within each other.
inline constexpr int32_t kMaxCallDepth = 256;
/// A call that was made: the callee is read for the count-th time.
struct StackNode {
  int32_t call = -1;
  int32_t count = 0;
  int32_t below = 0;
  int32_t depth = 0;
  uint64_t hash = 0;   // covers the whole stack
  uint32_t shape = 0;  // likewise, but not the counts
};

template <>
struct TypeName<StackNode> {
  static constexpr const char* value = "stack";
};

/// A hash of two values, in their order.
inline uint64_t join_hashes(uint64_t a, uint64_t b) { return mix_bits(a * 0x9E3779B97F4A7C15 + b); }

class CallStacks {
 public:
  static constexpr int32_t kNodes = 1 << 13;

  Status lay_out(RowSink& sink);
  /// Leaves the empty stack, node 0.
  void clear();
  /// Returns the node; -1, which is noted, if there is no room.
  int32_t push(int32_t call, int32_t count, int32_t below);
  const StackNode& operator[](int32_t node) const { return nodes_.data[node]; }
  int32_t count() const { return count_; }
  void drop_after(int32_t count);
  /// Number of times that there was no room since clear().
  int64_t dropped() const { return dropped_; }

 private:
  static constexpr int32_t kSlots = 1 << 14;

  int32_t slot_of(int32_t call, int32_t count, int32_t below, uint64_t hash) const;

  HostView<StackNode> nodes_;  // [1, kNodes]
  HostView<int32_t> slots_;    // [1, kSlots] open addressing by content: node + 1, 0: empty
  int32_t count_ = 0;
  int64_t dropped_ = 0;
};

}  // namespace ocellus

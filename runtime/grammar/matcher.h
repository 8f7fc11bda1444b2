// Matcher: where a text stands in an automaton: all ways to read it, as states with stacks of calls.
//
// Stacks share their lower parts: a place on a stack is a node that names the one below it (Tomita 1987, "An efficient
// augmented-context-free parsing algorithm"). Equal stacks are one node, so that equal ways are found by their numbers.
#pragma once

#include <algorithm>

#include "platform/arena.h"
#include "runtime/grammar/automaton.h"
#include "runtime/grammar/byte_trie.h"

namespace ocellus {

/// Ways to read one text; more are dropped, which is noted.
inline constexpr int32_t kMaxHeads = 64;
/// Calls within each other.
inline constexpr int32_t kMaxCallDepth = 256;
/// Nodes of the stacks of one text.
inline constexpr int32_t kMaxStackNodes = 1024;

/// A call that was made: the callee is read for the count-th time.
struct StackNode {
  int32_t call = -1;
  int32_t count = 0;
  int32_t below = 0;
  int32_t depth = 0;
  uint64_t hash = 0;  // covers the whole stack
};

/// A way to read the text so far. Stack 0 is the empty one.
struct Head {
  int32_t state = 0;
  int32_t stack = 0;
  bool operator==(const Head&) const = default;
};

/// The heads and stacks of one text, to be kept between its steps.
struct MatchState {
  Head heads[kMaxHeads];
  StackNode nodes[kMaxStackNodes];
  int32_t head_count = 0;
  int32_t node_count = 0;
};

template <>
struct TypeName<StackNode> {
  static constexpr const char* value = "stack";
};
template <>
struct TypeName<Head> {
  static constexpr const char* value = "head";
};
template <>
struct TypeName<MatchState> {
  static constexpr const char* value = "match";
};

class Matcher {
 public:
  /// Heads of one place in the text: first .. first + count - 1 of the matcher's.
  struct Level {
    int32_t first = 0, count = 0;
  };

  Status lay_out(RowSink& sink);
  /// The automaton of all that follows, until the next call; stands at the beginning of a text.
  void begin(const Automaton& automaton);
  void load(const Automaton& automaton, const MatchState& state);
  /// kUnsupported if the text has more ways to be read than fit.
  Status store(MatchState* state);

  /// Moves on by a byte; false, and nothing is changed, if no way leads there.
  bool advance(uint8_t byte);
  bool advance(std::string_view bytes);
  const Level& level() const { return level_; }
  const Head& head(int32_t i) const { return heads_.data[i]; }
  const StackNode& stack(int32_t i) const { return nodes_.data[i]; }
  /// True if the text may end here.
  bool accepts() const;
  /// Bytes that may follow.
  ByteSet next_bytes() const;
  /// Writes the bytes of which each is the only one that may come, at most `most`; returns their number. *ends: nothing
  /// may follow them.
  int32_t find_forced(char* out, int32_t most, bool* ends);
  /// Hash of all that decides what may follow.
  uint64_t hash() const;
  /// Number of times that a way was dropped for want of room since begin() or load().
  int64_t dropped() const { return dropped_; }

  /// Heads after the call of the top of a head's stack ended. They live until drop_after(mark).
  Level after_call(const Head& head);
  /// A copy of some of the present heads, likewise.
  Level copy_heads(const bool* wanted);
  /// Heads after a byte, likewise; none if no way leads there.
  Level after(const Level& from, uint8_t byte) { return step(from, byte); }
  struct Mark {
    int32_t heads = 0, nodes = 0;
  };
  Mark mark() const { return {head_count_, node_count_}; }
  void drop_after(const Mark& mark);

  /// Calls visit(node) for every node of a trie that can be read from the heads of `start`.
  template <class Visit>
  void walk(const ByteTrie& trie, const Level& start, Visit visit) {
    Level levels[ByteTrie::kMostDepth];
    Mark marks[ByteTrie::kMostDepth];
    int32_t ends[ByteTrie::kMostDepth];
    int32_t depth = 0;
    const Mark before = mark();
    std::fill(known_, known_ + kKnown, Known{});
    for (int32_t n = 0; n < trie.node_count;) {
      while (depth > 0 && ends[depth - 1] <= n) drop_after(marks[--depth]);
      const ByteTrie::Node& node = trie.nodes[n];
      const Mark here = mark();
      const Level next = step_once(depth > 0 ? levels[depth - 1] : start, node.byte);
      if (next.count == 0) {
        drop_after(here);
        n = node.end;
        continue;
      }
      visit(n);
      marks[depth] = here;
      levels[depth] = next;
      ends[depth++] = node.end;
      ++n;
    }
    kept_ = {};
    drop_after(before);
  }

 private:
  static constexpr int32_t kHeads = 1 << 14;
  static constexpr int32_t kNodes = 1 << 13;
  static constexpr int32_t kSlots = 1 << 14;
  static constexpr int32_t kMaxReached = 256;
  static constexpr int32_t kKnown = 64;

  /// A way that a byte of a walk led to, and the heads that follow from it. Most bytes of a text lead to the same few.
  struct Known {
    Head way = {-1, -1};
    Level level;
  };

  Level step(const Level& from, uint8_t byte);
  /// As step(), in a walk.
  Level step_once(const Level& from, uint8_t byte);
  void read(const Level& from, uint8_t byte);
  Level close();
  void reach(int32_t state, int32_t stack);
  void end_call(int32_t stack);
  int32_t push(int32_t call, int32_t count, int32_t below);
  int32_t slot_of(int32_t call, int32_t count, int32_t below, uint64_t hash) const;
  void empty_stacks();

  const Automaton* automaton_ = nullptr;
  HostView<Head> heads_;       // [1, kHeads] one level after the other
  HostView<StackNode> nodes_;  // [1, kNodes]
  HostView<int32_t> slots_;    // [1, kSlots] open addressing by content: node + 1, 0: empty
  HostView<int32_t> moved_;    // [1, kNodes] numbers of nodes that are stored
  int32_t head_count_ = 0;
  int32_t node_count_ = 0;
  Level level_;
  int64_t dropped_ = 0;
  Head reached_[kMaxReached];  // ways that a step has found, heads or not
  int32_t reached_count_ = 0;
  Known known_[kKnown];  // by the walk
  Mark kept_;            // end of the heads and nodes of known ways, which are not dropped
};

}  // namespace ocellus

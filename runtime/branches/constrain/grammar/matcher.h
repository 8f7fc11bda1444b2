// Matcher: where a text stands in an automaton: all ways to read it, as states with stacks of calls.
//
// Of two ways that differ in counts only, one may be able to do all that the other may: that of fewer items, where both
// have as many as they need. The other one is left out, so that nested counts keep few ways.
#pragma once

#include <algorithm>

#include "platform/arena.h"
#include "runtime/branches/constrain/grammar/automaton.h"
#include "runtime/branches/constrain/grammar/byte_set.h"
#include "runtime/branches/constrain/grammar/call_stacks.h"
#include "runtime/branches/constrain/grammar/step_meter.h"
#include "runtime/vocabulary/tokenizer.h"

namespace ocellus {

/// Ways to read one text; more are dropped, which is noted.
inline constexpr int32_t kMaxHeads = 64;
/// Nodes of the stacks of one text.
inline constexpr int32_t kMaxStackNodes = 1024;

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
struct TypeName<Head> {
  static constexpr const char* value = "head";
};
template <>
struct TypeName<MatchState> {
  static constexpr const char* value = "match";
};

/// Heads of one place in the text: first .. first + count - 1 of the matcher's.
struct MatchLevel {
  int32_t first = 0, count = 0;
};

/// The level that a key leads to, as the walk of number `walk` has found it.
struct KnownLevel {
  uint64_t key = 0;
  uint32_t walk = 0;
  MatchLevel level;
};
template <>
struct TypeName<KnownLevel> {
  static constexpr const char* value = "level";
};

class Matcher {
 public:
  using Level = MatchLevel;

  Status lay_out(RowSink& sink);
  /// Bounds what follows, until the next call; null: nothing does. Once it has no steps left, no way leads anywhere.
  void set_meter(StepMeter* meter) { meter_ = meter; }
  bool spend(int64_t steps) { return meter_ == nullptr || meter_->spend(steps); }
  /// The automaton of all that follows, until the next call; stands at the beginning of a text.
  void begin(const Automaton& automaton);
  void load(const Automaton& automaton, const MatchState& state);
  /// kUnsupported if the text has more ways to be read than fit.
  Status store(MatchState* state);

  /// Moves on by a byte; false, and nothing is changed, if no way leads there.
  bool advance(uint8_t byte);
  bool advance(std::string_view bytes);
  /// Moves on by a token, by its text and by its code.
  bool advance(TokenId token, std::string_view text);
  const Level& level() const { return level_; }
  const Head& head(int32_t i) const { return heads_.data[i]; }
  const StackNode& stack(int32_t i) const { return stacks_[i]; }
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
  int64_t dropped() const { return dropped_ + stacks_.dropped(); }

  /// Heads after the call of the top of a head's stack ended. They live until drop_after(mark).
  Level after_call(const Head& head);
  /// A copy of some of the present heads, likewise.
  Level copy_heads(const bool* wanted);
  /// Heads after a byte, likewise; none if no way leads there.
  Level after(const Level& from, uint8_t byte) { return step(from, byte); }
  struct Mark {
    int32_t heads = 0, nodes = 0;
  };
  Mark mark() const { return {head_count_, stacks_.count()}; }
  void drop_after(const Mark& mark);

 private:
  friend class LevelWalk;
  static constexpr int32_t kHeads = 1 << 14;
  static constexpr int32_t kMaxReached = 256;
  static constexpr int32_t kKnown = 1 << 10;

  Level step(const Level& from, uint8_t byte);
  void forget_levels();
  void read(const Level& from, uint8_t byte);
  Level close();
  void reach(int32_t state, int32_t stack);
  bool covers(int32_t stack, int32_t other);
  Level join(const Level& a, const Level& b);
  void end_call(int32_t stack);

  const Automaton* automaton_ = nullptr;
  HostView<Head> heads_;  // [1, kHeads] one level after the other
  CallStacks stacks_;
  HostView<int32_t> moved_;           // [1, CallStacks::kNodes] numbers of nodes that are stored
  HostView<KnownLevel> next_levels_;  // [1, kKnown] of a walk, by level and byte
  HostView<KnownLevel> made_levels_;  // [1, kKnown] likewise, by the ways that a byte led to
  StepMeter* meter_ = nullptr;
  int32_t head_count_ = 0;
  Level level_;
  int64_t dropped_ = 0;
  Head reached_[kMaxReached];  // ways that a step has found, heads or not; state -1: left out for a better one
  int32_t reached_count_ = 0;
  uint32_t walk_ = 0;  // number of the walk
  Mark kept_;          // end of the heads and nodes of known levels, which are not dropped
};

}  // namespace ocellus

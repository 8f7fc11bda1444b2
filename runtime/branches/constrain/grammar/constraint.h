// Constraint: what an answer may be, compiled, and the masks of the tokens with which it may go on.
#pragma once

#include "runtime/branches/constrain/grammar/automaton.h"
#include "runtime/branches/constrain/grammar/matcher.h"
#include "runtime/branches/constrain/grammar/token_spans.h"
#include "runtime/branches/constrain/grammar/token_trie.h"

namespace ocellus {

/// Masks that were made, by the hash of where the answer stands. Four of equal low bits are kept, the oldest one is
/// replaced.
class MaskCache {
 public:
  void open(HostView<std::byte> memory, int64_t words);
  /// Returns the mask; null if it is not there.
  const uint32_t* find(uint64_t hash) const;
  void keep(uint64_t hash, const uint32_t* mask);
  int64_t capacity() const { return capacity_; }

 private:
  static constexpr int64_t kWays = 4;

  int64_t set_of(uint64_t hash) const { return static_cast<int64_t>(hash % static_cast<uint64_t>(capacity_ / kWays)); }

  uint64_t* hashes_ = nullptr;  // 0: none
  uint8_t* next_ = nullptr;     // by set: the way that is replaced next
  uint32_t* masks_ = nullptr;
  int64_t capacity_ = 0;
  int64_t words_ = 0;
};

class Constraint {
 public:
  /// Compiles what `start` matches, in steps of the grammar's meter. `grammar` may lie at the end of `memory`, in its
  /// last third; masks are then kept where it was. kUnsupported with what to change if no answer can begin, or the
  /// first mask takes too many steps; the memory must have room to tell.
  Status compile(const Grammar& grammar, Expression start, const TokenTrie& tokens, HostView<std::byte> memory);

  const Automaton& automaton() const { return automaton_; }
  /// Writes the mask of the tokens that may come next, those that end an answer if it may end here, to mask [words].
  /// Returns their number, at most 2 where it is more; 0 also after the matcher's meter has no steps left.
  int32_t fill_mask(Matcher* matcher, const TokenTrie& tokens, uint32_t* mask);

  /// Bytes that its tables take, and masks that are kept beside them.
  int64_t table_bytes() const { return table_bytes_; }
  int64_t kept_masks() const { return cache_.capacity(); }

 private:
  void make_mask(Matcher* matcher, const TokenTrie& tokens, uint32_t* mask) const;
  Status check_beginning(const TokenTrie& tokens, const StopSignal* stop, HostView<std::byte> memory) const;
  bool is_span(const Matcher& matcher, const Head& head) const;
  void add_span(Matcher* matcher, int32_t first, bool* marked, int64_t tokens, uint32_t* mask) const;

  Automaton automaton_;
  TokenSpans spans_;
  MaskCache cache_;
  int64_t table_bytes_ = 0;
};

}  // namespace ocellus

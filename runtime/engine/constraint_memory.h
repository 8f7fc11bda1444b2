// Constraints of an engine: compiled grammars, the vocabulary as a trie, and what their steps work in.
#pragma once

#include "platform/set_up_memory.h"
#include "runtime/engine/engine_shape.h"
#include "runtime/grammar/constraint.h"
#include "runtime/ocellus.h"

namespace ocellus {

/// Bytes that a constraint leaves no choice of, found at once, and the tokens that spell them.
inline constexpr int32_t kMostForcedBytes = 128;
inline constexpr int32_t kMostForcedTokens = 64;

/// Tokens that must come next, in order.
struct ForcedTokens {
  TokenId ids[kMostForcedTokens] = {};
  int32_t count = 0;
  int32_t next = 0;
  bool is_known = false;  // they were looked for at this place

  bool any() const { return next < count; }
  TokenId token() const { return ids[next]; }
};

class ConstraintMemory;

/// A planned constraint. `serial` tells those apart that used the same memory.
struct ConstraintSlot {
  Constraint constraint;
  ConstraintMemory* owner = nullptr;
  uint64_t serial = 0;  // 0: not open

  void close() { serial = 0; }
};

/// Place of a session's answer under its constraint.
struct ConstraintState {
  MatchState match;
  ForcedTokens forced;
  ConstraintSlot* slot = nullptr;
  uint64_t serial = 0;       // the slot's when the answer began
  bool is_complete = false;  // nothing may follow the newest token
};

template <>
struct TypeName<ConstraintState> {
  static constexpr const char* value = "match";
};

class ConstraintMemory {
 public:
  /// After the tokenizer's tables were laid out.
  Status lay_out(const Tokenizer& tokenizer, const ConstraintShape& shape, int64_t sessions, RowSink& sink);

  /// Compiles a constraint. kFull if all are open or the memory of one is too small.
  Status open(const ocellus_constraint_params& params, ConstraintSlot** out);
  /// True if the pointer is one of this engine's open constraints.
  bool has(const ConstraintSlot* slot) const;

  const TokenTrie& tokens() const { return tokens_; }
  Matcher& matcher() { return matcher_; }
  ConstraintState& state(int32_t session) { return states_.data[session]; }
  /// Tokens that must come where the matcher stands, as far as they are known.
  ForcedTokens& forced() { return forced_; }
  /// Finds them unless they are known.
  Status find_forced();

 private:
  TokenTrie tokens_;
  Matcher matcher_;
  HostView<std::byte> tables_;        // [constraints, bytes]
  HostView<ConstraintState> states_;  // [1, sessions]
  HostView<std::byte> encoding_;      // workspace for forced texts
  Buffer<ConstraintSlot> slots_;
  ForcedTokens forced_;
  uint64_t last_serial_ = 0;
};

}  // namespace ocellus

// Constraints of an engine: compiled grammars, the vocabulary as a trie, and what their steps work in.
#pragma once

#include <atomic>

#include "platform/set_up_memory.h"
#include "runtime/branches/constrain/grammar/constraint.h"
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

/// Constraints that are planned.
struct ConstraintShape {
  int32_t count = 0;
  int64_t planned_bytes = 0;  // each one's memory, in which it is compiled, too; 0: 8 MiB

  int64_t bytes() const { return planned_bytes > 0 ? planned_bytes : int64_t{8} << 20; }
};

/// A planned constraint. `serial` tells those apart that used the same memory.
struct ConstraintSlot {
  static constexpr uint64_t kCompiling = UINT64_MAX;

  Constraint constraint;
  ConstraintMemory* owner = nullptr;
  uint64_t serial = 0;          // 0: not open
  bool allows_a_space = false;  // before what the constraint describes, see ocellus_constraint

  // Another thread may open and close slots.
  uint64_t load_serial() const {
    return std::atomic_ref(const_cast<uint64_t&>(serial)).load(std::memory_order_acquire);
  }
  void store_serial(uint64_t value) { std::atomic_ref(serial).store(value, std::memory_order_release); }
  bool is_open() const { return load_serial() != 0 && load_serial() != kCompiling; }
  void close() { store_serial(0); }
};

/// Place of a session's answer under its constraint.
struct ConstraintState {
  MatchState match;
  ForcedTokens forced;
  ConstraintSlot* slot = nullptr;
  const StopSignal* stop = nullptr;  // the session's
  int64_t mask_steps = 0;            // cost of the newest masks
  uint64_t serial = 0;               // the slot's when the answer began
  bool is_begun = false;             // a space is text that the constraint describes
  bool is_complete = false;          // nothing may follow the newest token
};

template <>
struct TypeName<ConstraintState> {
  static constexpr const char* value = "match";
};

class ConstraintMemory {
 public:
  /// After the tokenizer's tables were laid out. `spaced`: the model's answers begin with a space.
  Status lay_out(const Tokenizer& tokenizer, const ConstraintShape& shape, int64_t sessions, RowSink& sink,
                 bool spaced = false);

  /// Compiles a constraint; `stop` ends that, null: nothing does. kFull if all are open or the memory of one is too
  /// small, kUnsupported after kMostCompileSteps. May be called by a thread beside the engine's, one at a time.
  Status open(const ocellus_constraint_params& params, const StopSignal* stop, ConstraintSlot** out);
  Status open(const ocellus_constraint_params& params, ConstraintSlot** out) { return open(params, nullptr, out); }
  /// True if the pointer is one of this engine's open constraints.
  bool has(const ConstraintSlot* slot) const;

  const TokenTrie& tokens() const { return tokens_; }
  Matcher& matcher() { return matcher_; }
  /// The steps of what the matcher does until the next call, at most kMostMaskSteps.
  StepMeter& begin_steps(const StopSignal* stop) {
    meter_ = StepMeter("a mask of the constraint", kMostMaskSteps, stop);
    matcher_.set_meter(&meter_);
    return meter_;
  }
  StepMeter& meter() { return meter_; }
  ConstraintState& state(int32_t session) { return states_.data[session]; }
  /// Tokens that must come where the matcher stands, as far as they are known.
  ForcedTokens& forced() { return forced_; }
  /// Finds them unless they are known.
  Status find_forced();

 private:
  Status compile(const ocellus_constraint_params& params, const StopSignal* stop, HostView<std::byte> memory,
                 ConstraintSlot* out) const;

  TokenTrie tokens_;
  Matcher matcher_;
  StepMeter meter_;
  HostView<std::byte> tables_;        // [constraints, bytes]
  HostView<ConstraintState> states_;  // [1, sessions]
  HostView<std::byte> encoding_;      // workspace for forced texts
  Buffer<ConstraintSlot> slots_;
  ForcedTokens forced_;
  uint64_t last_serial_ = 0;
  bool spaced_ = false;
};

}  // namespace ocellus

// Token spans: which tokens consist of items of a counted call, and which leave it.
//
// A walk of the whole vocabulary inside a JSON string meets nearly every token. So each kind of item (a character of a
// string) is walked once, when a constraint is compiled: a token that stays among the items needs their number only;
// one that leaves them is listed by what follows the items.
#pragma once

#include "runtime/branches/constrain/grammar/automaton.h"
#include "runtime/branches/constrain/grammar/byte_trie.h"
#include "runtime/branches/constrain/grammar/step_meter.h"
#include "runtime/branches/constrain/grammar/token_trie.h"

namespace ocellus {

/// A token that has `items` whole items before a rest, which begins at a byte.
struct SpanExit {
  TokenId token = 0;
  int16_t items = 0;
  int16_t rest = 0;
};

struct TokenSpan {
  static constexpr uint8_t kLeaves = 127;
  /// More items than a mask by number is made for.
  static constexpr int32_t kMaxItems = kLeaves - 1;

  const uint8_t* items = nullptr;   // by token: items, a begun one included; kLeaves: not only items, or too many
  const uint32_t* stays = nullptr;  // mask of the tokens that are items only
  ByteTrie rests;                   // after whole items
  const SpanExit* exits = nullptr;  // by entry of the rests
};

class ItemMachine;

/// Spans of an automaton, in memory of the constraint.
struct TokenSpans {
  static constexpr int32_t kMost = 16;
  /// Machines that are looked at, so that compiling is bounded.
  static constexpr int32_t kMostMachines = 64;
  TokenSpan spans[kMost];
  int32_t count = 0;

  /// Finds the calls whose items are spans and numbers them in `calls`; equal items have one. A call whose tables do
  /// not fit is none, nor is one after half of the meter's steps were taken, which costs time only.
  void build(const Automaton& automaton, AutomatonCall* calls, const TokenTrie& tokens, Workspace* workspace,
             StepMeter* meter);

 private:
  bool add(const ItemMachine& machine, const ByteSet& after, const TokenTrie& tokens, Workspace* workspace);
};

}  // namespace ocellus

// Token spans: which tokens consist of items of a counted call, and which leave it.
//
// A walk of the whole vocabulary inside a JSON string meets nearly every token. So each kind of item (a character of a
// string) is walked once, when a constraint is compiled: a token that stays among the items needs their number only;
// one that leaves them is listed by what follows the items.
#pragma once

#include "runtime/grammar/automaton.h"
#include "runtime/grammar/byte_trie.h"
#include "runtime/grammar/token_trie.h"

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

  int32_t callee = 0;               // of the items' machine
  const uint8_t* items = nullptr;   // by token: items, a begun one included; kLeaves: not only items, or too many
  const uint32_t* stays = nullptr;  // mask of the tokens that are items only
  ByteTrie rests;                   // after whole items
  const SpanExit* exits = nullptr;  // by entry of the rests
};

/// Spans of an automaton, in memory of the constraint.
struct TokenSpans {
  static constexpr int32_t kMost = 16;
  TokenSpan spans[kMost];
  int32_t count = 0;

  /// Finds the calls whose items are spans and numbers them in `calls`. A call whose tables do not fit is none, which
  /// costs time only.
  void build(const Automaton& automaton, AutomatonCall* calls, const TokenTrie& tokens, Workspace* workspace);

 private:
  bool add(const Automaton& automaton, int32_t callee, const TokenTrie& tokens, Workspace* workspace);
};

}  // namespace ocellus

// The merge loop of both kinds of vocabulary: neighbouring symbols merge, the best pair first, the leftmost among
// equals, until no pair merges. A heap of pairs in the caller's memory makes that O(n log n).
#pragma once

#include <cstdint>

#include "runtime/vocabulary/tokenizer.h"

namespace ocellus {

/// The token that a pair of neighbours merges to, and its priority.
struct PairMerge {
  TokenId merged = kNoToken;  // kNoToken: it does not merge
  float cost = 0;
};

/// A stretch of the text. Symbols are numbered by their first byte; the end of one is the number of the next.
struct Symbol {
  int32_t previous;    // -1 at the first
  int32_t next;        // text bytes at the last
  TokenId id;          // kNoToken if no token has this text
  int32_t heap_place;  // heap index of the pair that begins with this symbol, -1 if it is not in the heap
  PairMerge pair;      // valid while in the heap
};

/// Binary heap of the symbols that begin a mergeable pair. Stores each one's index, so that pairs can be removed.
class PairHeap {
 public:
  /// `heap` has as many entries as there are symbols.
  PairHeap(Symbol* symbols, int32_t* heap) : symbols_(symbols), heap_(heap) {}

  bool empty() const { return size_ == 0; }
  int32_t top() const { return heap_[0]; }

  void push(int32_t symbol, PairMerge pair) {
    symbols_[symbol].pair = pair;
    place(symbol, size_);
    rise(size_++);
  }
  void remove(int32_t symbol) {
    const int32_t hole = symbols_[symbol].heap_place;
    if (hole < 0) return;
    symbols_[symbol].heap_place = -1;
    const int32_t last = heap_[--size_];
    if (last == symbol) return;
    place(last, hole);
    rise(hole);
    sink(symbols_[last].heap_place);
  }

 private:
  bool goes_before(int32_t a, int32_t b) const {
    const float cost_a = symbols_[a].pair.cost;
    const float cost_b = symbols_[b].pair.cost;
    return cost_a != cost_b ? cost_a < cost_b : a < b;
  }
  void place(int32_t symbol, int32_t at) {
    heap_[at] = symbol;
    symbols_[symbol].heap_place = at;
  }
  void swap(int32_t a, int32_t b) {
    const int32_t symbol = heap_[a];
    place(heap_[b], a);
    place(symbol, b);
  }
  void rise(int32_t at) {
    for (; at > 0 && goes_before(heap_[at], heap_[(at - 1) / 2]); at = (at - 1) / 2) swap(at, (at - 1) / 2);
  }
  void sink(int32_t at) {
    for (;;) {
      int32_t first = at;
      for (const int32_t child : {2 * at + 1, 2 * at + 2}) {
        if (child < size_ && goes_before(heap_[child], heap_[first])) first = child;
      }
      if (first == at) return;
      swap(at, first);
      at = first;
    }
  }

  Symbol* symbols_;
  int32_t* heap_;
  int32_t size_ = 0;
};

/// Merges the symbols of a text of `text_bytes` bytes, linked from number 0 on. rule(left, right) returns the PairMerge
/// of two neighbouring symbols (their numbers).
template <class Rule>
void merge_symbols(Symbol* symbols, int32_t text_bytes, int32_t* heap, const Rule& rule) {
  PairHeap pairs(symbols, heap);
  const auto consider = [&](int32_t left) {
    const int32_t right = symbols[left].next;
    if (right >= text_bytes) return;
    const PairMerge pair = rule(left, right);
    if (pair.merged != kNoToken) pairs.push(left, pair);
  };
  for (int32_t i = 0; i < text_bytes; i = symbols[i].next) {
    symbols[i].heap_place = -1;
    consider(i);
  }
  while (!pairs.empty()) {
    const int32_t left = pairs.top();
    const int32_t right = symbols[left].next;
    const int32_t previous = symbols[left].previous;
    pairs.remove(left);
    pairs.remove(right);
    symbols[left].id = symbols[left].pair.merged;
    symbols[left].next = symbols[right].next;
    if (symbols[left].next < text_bytes) symbols[symbols[left].next].previous = left;
    consider(left);
    if (previous >= 0) {
      pairs.remove(previous);
      consider(previous);
    }
  }
}

}  // namespace ocellus

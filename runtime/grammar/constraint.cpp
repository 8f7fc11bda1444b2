#include "runtime/grammar/constraint.h"

#include <algorithm>
#include <cstring>

#include "runtime/grammar/compile_grammar.h"

namespace ocellus {
namespace {

/// Adds the tokens of at most `most` items, eight at a time: bytes below 128 are compared without a carry between them.
void add_up_to(const uint8_t* items, int64_t tokens, int most, uint32_t* mask) {
  constexpr uint64_t kOnes = 0x0101010101010101, kHighs = 0x8080808080808080;
  const uint64_t bound = kHighs + kOnes * static_cast<uint64_t>(most);
  int64_t t = 0;
  for (; t + 32 <= tokens; t += 32) {
    uint32_t word = 0;
    for (int part = 0; part < 4; ++part) {
      uint64_t eight;
      std::memcpy(&eight, items + t + 8 * part, sizeof eight);
      const uint64_t within = (bound - eight) & kHighs;
      word |= static_cast<uint32_t>((within >> 7) * 0x0102040810204080 >> 56) << (8 * part);
    }
    mask[t / 32] |= word;
  }
  for (; t < tokens; ++t)
    if (items[t] <= most) add_token(mask, t);
}

}  // namespace

void MaskCache::open(HostView<std::byte> memory, int64_t words) {
  words_ = words;
  const int64_t each = words * int64_t{sizeof(uint32_t)} + int64_t{sizeof(uint64_t)} + 1;
  capacity_ = std::max<int64_t>(memory.cols - 64, 0) / each / kWays * kWays;
  Workspace workspace(memory);
  GrowingArray<uint64_t> hashes = workspace.take<uint64_t>(capacity_ * int64_t{sizeof(uint64_t)});
  masks_ = workspace.take<uint32_t>(capacity_ * words * int64_t{sizeof(uint32_t)}).data();
  GrowingArray<uint8_t> next = workspace.take<uint8_t>(capacity_ / kWays);
  if (!hashes.resize(capacity_, 0) || !next.resize(capacity_ / kWays, 0)) capacity_ = 0;
  hashes_ = hashes.data();
  next_ = next.data();
}

const uint32_t* MaskCache::find(uint64_t hash) const {
  if (capacity_ == 0) return nullptr;
  const int64_t first = kWays * set_of(hash);
  for (int64_t way = first; way < first + kWays; ++way)
    if (hashes_[way] == hash) return masks_ + way * words_;
  return nullptr;
}

void MaskCache::keep(uint64_t hash, const uint32_t* mask) {
  if (capacity_ == 0 || hash == 0) return;
  uint8_t& next = next_[set_of(hash)];
  const int64_t way = kWays * set_of(hash) + next;
  next = static_cast<uint8_t>((next + 1) % kWays);
  hashes_[way] = hash;
  std::copy(mask, mask + words_, masks_ + way * words_);
}

Status Constraint::compile(const Grammar& grammar, Expression start, const TokenTrie& tokens,
                           HostView<std::byte> memory) {
  const HostView<std::byte> tables(memory.data, 1, memory.cols / 3 * 2);
  OCELLUS_TRY(compile_grammar(grammar, start, tokens.single_bytes(), tables, &automaton_, &table_bytes_));
  const int64_t half = (memory.cols - table_bytes_) / 2;  // the other one is for masks
  Workspace workspace({memory.data + table_bytes_, 1, half});
  AutomatonCall* const calls = const_cast<AutomatonCall*>(automaton_.calls);
  spans_.build(automaton_, calls, tokens, &workspace);
  table_bytes_ += half - workspace.left();
  cache_.open({memory.data + table_bytes_, 1, memory.cols - table_bytes_}, tokens.words());
  return {};
}

/// The head stands before an item of a span.
bool Constraint::is_span(const Matcher& matcher, const Head& head) const {
  if (head.stack == 0) return false;
  const AutomatonCall& call = automaton_.calls[matcher.stack(head.stack).call];
  return call.span >= 0 && call.callee == head.state;
}

/// Tokens of items only, as many as may come, and tokens of items and then what may follow them.
void Constraint::add_span(Matcher* matcher, const Head& head, int64_t tokens, uint32_t* mask) const {
  const StackNode& top = matcher->stack(head.stack);
  const AutomatonCall& call = automaton_.calls[top.call];
  const TokenSpan& span = spans_.spans[call.span];
  const int32_t before = top.count - 1;  // whole items
  if (call.most == kUnbounded) {
    for (int64_t word = 0; word < mask_words(tokens); ++word) mask[word] |= span.stays[word];
  } else {
    add_up_to(span.items, tokens, std::min(call.most - before, TokenSpan::kMaxItems), mask);
  }
  const Matcher::Mark mark = matcher->mark();
  matcher->walk(span.rests, matcher->after_call(head), [&](int32_t node) {
    for (int32_t e = span.rests.nodes[node].first_entry; e < span.rests.entries_end(node); ++e) {
      const int32_t items = before + span.exits[e].items;
      if (items >= call.least && items <= call.most) add_token(mask, span.exits[e].token);
    }
  });
  matcher->drop_after(mark);
}

void Constraint::make_mask(Matcher* matcher, const TokenTrie& tokens, uint32_t* mask) const {
  std::fill(mask, mask + tokens.words(), 0);
  bool others[kMaxHeads] = {};
  const Matcher::Level level = matcher->level();
  for (int32_t h = 0; h < level.count; ++h) {
    const Head head = matcher->head(level.first + h);
    others[h] = !is_span(*matcher, head);
    if (!others[h]) add_span(matcher, head, tokens.tokenizer().token_count(), mask);
  }
  const Matcher::Mark mark = matcher->mark();
  const ByteTrie& trie = tokens.trie();
  matcher->walk(trie, matcher->copy_heads(others), [&](int32_t node) {
    for (int32_t e = trie.nodes[node].first_entry; e < trie.entries_end(node); ++e) add_token(mask, tokens.token(e));
  });
  matcher->drop_after(mark);
}

int32_t Constraint::fill_mask(Matcher* matcher, const TokenTrie& tokens, uint32_t* mask) {
  const uint64_t hash = matcher->hash();
  if (const uint32_t* const known = cache_.find(hash); known != nullptr) {
    std::copy(known, known + tokens.words(), mask);
  } else {
    make_mask(matcher, tokens, mask);
    cache_.keep(hash, mask);
  }
  if (matcher->accepts())
    for (int64_t e = 0; e < tokens.ends().cols; ++e) add_token(mask, tokens.ends().data[e]);
  int32_t found = 0;
  for (int64_t word = 0; word < tokens.words() && found < 2; ++word) found += std::popcount(mask[word]);
  return std::min(found, 2);
}

}  // namespace ocellus

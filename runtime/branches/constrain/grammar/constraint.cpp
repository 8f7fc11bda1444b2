#include "runtime/branches/constrain/grammar/constraint.h"

#include <algorithm>
#include <cstring>

#include "runtime/branches/constrain/grammar/compile_grammar.h"
#include "runtime/branches/constrain/grammar/level_walk.h"

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

/// Rows in memory that is used meanwhile.
class WorkspaceSink : public RowSink {
 public:
  explicit WorkspaceSink(HostView<std::byte> memory) : workspace_(memory) {}
  Status take(const RowSpec& row, std::byte** out) override {
    *out = workspace_.take<std::byte>(row.bytes).data();
    return *out != nullptr ? Status() : Status(Code::kFull);
  }

 private:
  Workspace workspace_;
};

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
  const ByteSet spelled = ByteSet(tokens.single_bytes()).add_all(TokenCode::digits()).add(TokenCode::kMark);
  OCELLUS_TRY(compile_grammar(grammar, start, spelled, tables, &automaton_, &table_bytes_));
  const int64_t half = (memory.cols - table_bytes_) / 2;  // the other one is for masks
  Workspace workspace({memory.data + table_bytes_, 1, half});
  AutomatonCall* const calls = const_cast<AutomatonCall*>(automaton_.calls);
  spans_.build(automaton_, calls, tokens, &workspace, grammar.meter);
  OCELLUS_TRY(grammar.status());
  table_bytes_ += half - workspace.left();
  const StopSignal* const stop = grammar.meter != nullptr ? grammar.meter->stop() : nullptr;
  OCELLUS_TRY(check_beginning(tokens, stop, {memory.data + table_bytes_, 1, memory.cols - table_bytes_}));
  cache_.open({memory.data + table_bytes_, 1, memory.cols - table_bytes_}, tokens.words());
  return {};
}

/// Makes the first mask in memory that masks are kept in later.
Status Constraint::check_beginning(const TokenTrie& tokens, const StopSignal* stop, HostView<std::byte> memory) const {
  WorkspaceSink sink(memory);
  Matcher matcher;
  HostView<uint32_t> mask;
  StepMeter meter("the first mask of the constraint", kMostMaskSteps, stop);
  if (!matcher.lay_out(sink).ok()) return {};
  if (!take_rows(sink, "mask", Lifetime::kSession, Phase::kNone, 1, tokens.words(), &mask).ok()) return {};
  matcher.set_meter(&meter);
  matcher.begin(automaton_);
  make_mask(&matcher, tokens, mask.data);
  OCELLUS_TRY(meter.status());
  if (matcher.accepts() || std::any_of(mask.data, mask.data + mask.cols, [](uint32_t word) { return word != 0; }))
    return {};
  return OCELLUS_FAIL(
      Code::kUnsupported,
      "no answer can begin: the constraint's first characters are more than %d calls deep, or can be read "
      "in more than %d ways, or no token of the model's vocabulary spells them",
      kMaxCallDepth, kMaxHeads);
}

/// The head stands before an item of a span.
bool Constraint::is_span(const Matcher& matcher, const Head& head) const {
  if (head.stack == 0) return false;
  const AutomatonCall& call = automaton_.calls[matcher.stack(head.stack).call];
  return call.span >= 0 && call.callee == head.state;
}

/// Tokens of items only, as many as may come, and tokens of items and then what may follow them, for head `first` of
/// the level and all later ones of the same call that differ in its count: they are marked, so that they are not looked
/// at again. What follows is walked once for all of them.
void Constraint::add_span(Matcher* matcher, int32_t first, bool* marked, int64_t tokens, uint32_t* mask) const {
  const Matcher::Level level = matcher->level();
  const Head head = matcher->head(level.first + first);
  const StackNode top = matcher->stack(head.stack);
  const AutomatonCall& call = automaton_.calls[top.call];
  const TokenSpan& span = spans_.spans[call.span];
  int32_t before[kMaxHeads];  // whole items that were read
  int32_t count = 0, fewest = top.count - 1;
  for (int32_t h = first; h < level.count; ++h) {
    const Head& other = matcher->head(level.first + h);
    const StackNode& its = matcher->stack(other.stack);
    if (other.state != head.state || its.call != top.call || its.below != top.below) continue;
    marked[h] = true;
    before[count++] = its.count - 1;
    fewest = std::min(fewest, its.count - 1);
  }
  if (call.most == kUnbounded) {
    for (int64_t word = 0; word < mask_words(tokens); ++word) mask[word] |= span.stays[word];
  } else {
    add_up_to(span.items, tokens, std::min(call.most - fewest, TokenSpan::kMaxItems), mask);
  }
  const Matcher::Mark mark = matcher->mark();
  const MatchLevel after = matcher->after_call(head);
  LevelWalk(matcher).visit_trie(span.rests, after, [&](int32_t node) {
    for (int32_t e = span.rests.nodes[node].first_entry; e < span.rests.entries_end(node); ++e) {
      const int32_t more = span.exits[e].items;
      const auto fits = [&](int32_t items) { return items + more >= call.least && items + more <= call.most; };
      if (std::any_of(before, before + count, fits)) add_token(mask, span.exits[e].token);
    }
  });
  matcher->drop_after(mark);
}

void Constraint::make_mask(Matcher* matcher, const TokenTrie& tokens, uint32_t* mask) const {
  std::fill(mask, mask + tokens.words(), 0);
  bool in_span[kMaxHeads] = {}, others[kMaxHeads] = {};
  const Matcher::Level level = matcher->level();
  for (int32_t h = 0; h < level.count; ++h) {
    others[h] = !is_span(*matcher, matcher->head(level.first + h));
    if (others[h] || in_span[h] || !matcher->spend(tokens.words() / 4)) continue;
    add_span(matcher, h, in_span, tokens.tokenizer().token_count(), mask);
  }
  const Matcher::Mark mark = matcher->mark();
  const ByteTrie& trie = tokens.trie();
  const MatchLevel start = matcher->copy_heads(others);
  LevelWalk(matcher).visit_trie(trie, start, [&](int32_t node) {
    for (int32_t e = trie.nodes[node].first_entry; e < trie.entries_end(node); ++e) add_token(mask, tokens.token(e));
  });
  matcher->drop_after(mark);
  LevelWalk(matcher).visit_codes(tokens.tokenizer().token_count(), [&](TokenId token) {
    if (tokens.may_name(token)) add_token(mask, token);
  });
}

int32_t Constraint::fill_mask(Matcher* matcher, const TokenTrie& tokens, uint32_t* mask) {
  const uint64_t hash = matcher->hash();
  if (const uint32_t* const known = cache_.find(hash); known != nullptr) {
    std::copy(known, known + tokens.words(), mask);
  } else {
    make_mask(matcher, tokens, mask);
    if (!matcher->spend(0)) return 0;
    cache_.keep(hash, mask);
  }
  if (matcher->accepts())
    for (int64_t e = 0; e < tokens.ends().cols; ++e) add_token(mask, tokens.ends().data[e]);
  int32_t found = 0;
  for (int64_t word = 0; word < tokens.words() && found < 2; ++word) found += std::popcount(mask[word]);
  return std::min(found, 2);
}

}  // namespace ocellus

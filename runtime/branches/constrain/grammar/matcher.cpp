#include "runtime/branches/constrain/grammar/matcher.h"

#include <algorithm>

#include "runtime/branches/constrain/grammar/token_code.h"

namespace ocellus {
Status Matcher::lay_out(RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kSession;
  OCELLUS_TRY(take_rows(sink, "constraint heads", kLife, Phase::kNone, 1, kHeads, &heads_));
  OCELLUS_TRY(stacks_.lay_out(sink));
  OCELLUS_TRY(take_rows(sink, "constraint stack moves", kLife, Phase::kNone, 1, CallStacks::kNodes, &moved_));
  OCELLUS_TRY(take_rows(sink, "constraint next levels", kLife, Phase::kNone, 1, kKnown, &next_levels_));
  OCELLUS_TRY(take_rows(sink, "constraint levels", kLife, Phase::kNone, 1, kKnown, &made_levels_));
  if (made_levels_.data != nullptr) forget_levels();
  return {};
}

void Matcher::forget_levels() {
  for (const HostView<KnownLevel>& known : {next_levels_, made_levels_})
    std::fill(known.data, known.data + kKnown, KnownLevel());
  walk_ = 1;
}

void Matcher::begin(const Automaton& automaton) {
  automaton_ = &automaton;
  stacks_.clear();
  head_count_ = 0;
  dropped_ = 0;
  reached_count_ = 0;
  reach(automaton.start, 0);
  level_ = close();
}

void Matcher::load(const Automaton& automaton, const MatchState& state) {
  automaton_ = &automaton;
  stacks_.clear();
  head_count_ = 0;
  dropped_ = 0;
  moved_.data[0] = 0;
  for (int32_t n = 1; n < state.node_count; ++n) {
    const StackNode& node = state.nodes[n];
    moved_.data[n] = stacks_.push(node.call, node.count, moved_.data[node.below]);
  }
  for (int32_t h = 0; h < state.head_count; ++h)
    heads_.data[h] = {state.heads[h].state, moved_.data[state.heads[h].stack]};
  level_ = {0, state.head_count};
  head_count_ = state.head_count;
}

/// Nodes stand after those below them, so that one pass moves all that are needed.
Status Matcher::store(MatchState* state) {
  std::fill(moved_.data, moved_.data + stacks_.count(), -1);
  for (int32_t h = 0; h < level_.count; ++h)
    for (int32_t n = heads_.data[level_.first + h].stack; n > 0 && moved_.data[n] < 0; n = stacks_[n].below)
      moved_.data[n] = 0;
  int32_t count = 1;
  state->nodes[0] = {};
  moved_.data[0] = 0;
  for (int32_t n = 1; n < stacks_.count(); ++n) {
    if (moved_.data[n] < 0) continue;
    if (count == kMaxStackNodes)
      return OCELLUS_FAIL(Code::kUnsupported, "the constraint leaves too many ways to read the answer so far");
    state->nodes[count] = stacks_[n];
    state->nodes[count].below = moved_.data[stacks_[n].below];
    moved_.data[n] = count++;
  }
  state->node_count = count;
  state->head_count = level_.count;
  for (int32_t h = 0; h < level_.count; ++h) {
    const Head& head = heads_.data[level_.first + h];
    state->heads[h] = {head.state, moved_.data[head.stack]};
  }
  return {};
}

void Matcher::drop_after(const Mark& mark) {
  head_count_ = std::max(mark.heads, kept_.heads);
  stacks_.drop_after(std::max(mark.nodes, kept_.nodes));
}

/// Tells if all that may follow at `other`, in the same state of a machine, may follow at `stack`.
bool Matcher::covers(int32_t stack, int32_t other) {
  while (stack != other && spend(1)) {
    const StackNode& a = stacks_[stack];
    const StackNode& b = stacks_[other];
    if (a.shape != b.shape || a.call != b.call || stack == 0 || other == 0) return false;
    if (a.count != b.count && (a.count > b.count || a.count < automaton_->calls[a.call].least)) return false;
    stack = a.below;
    other = b.below;
  }
  return true;
}

void Matcher::reach(int32_t state, int32_t stack) {
  const uint32_t shape = stacks_[stack].shape;
  spend(2 + reached_count_ / 4);
  for (int32_t i = 0; i < reached_count_; ++i) {
    Head& way = reached_[i];
    if (way.state != state || stacks_[way.stack].shape != shape) continue;
    if (covers(way.stack, stack)) return;
    if (covers(stack, way.stack)) way.state = -1;
  }
  if (reached_count_ == kMaxReached)
    ++dropped_;
  else
    reached_[reached_count_++] = {state, stack};
}

/// The callee of the top of a stack has ended: it is called again, or what follows the call is read.
void Matcher::end_call(int32_t stack) {
  const StackNode node = stacks_[stack];
  const AutomatonCall& call = automaton_->calls[node.call];
  if (node.count < call.most) {
    // Counts past the least one do not matter where there is no most.
    const int32_t count = call.most == kUnbounded ? std::min(node.count + 1, call.least + 1) : node.count + 1;
    const int32_t again = stacks_.push(node.call, count, node.below);
    if (again >= 0) reach(call.callee, again);
  }
  if (node.count >= call.least) reach(call.returns, node.below);
}

/// Follows calls and their ends from what was reached; the ways from which a byte can be read, or at which the text may
/// end, are the next heads.
Matcher::Level Matcher::close() {
  for (int32_t i = 0; i < reached_count_ && spend(2); ++i) {
    const Head way = reached_[i];
    if (way.state < 0) continue;
    const AutomatonState& state = automaton_->states[way.state];
    for (int32_t c = state.first_call; c < state.first_call + state.call_count && spend(4); ++c) {
      const AutomatonCall& call = automaton_->calls[c];
      const int32_t stack = automaton_->is_last(call) ? way.stack : stacks_.push(c, 1, way.stack);
      if (stack >= 0) reach(call.callee, stack);
    }
    if (state.accepts != 0 && way.stack != 0) end_call(way.stack);
  }
  Level level{head_count_, 0};
  for (int32_t i = 0; i < reached_count_; ++i) {
    const Head way = reached_[i];
    if (way.state < 0) continue;
    const AutomatonState& state = automaton_->states[way.state];
    if (state.edge_count == 0 && (state.accepts == 0 || way.stack != 0)) continue;
    if (level.count == kMaxHeads || head_count_ == kHeads) {
      ++dropped_;
      continue;
    }
    heads_.data[head_count_++] = way;
    ++level.count;
  }
  return level;
}

/// The ways after a byte, calls and their ends not yet followed.
void Matcher::read(const Level& from, uint8_t byte) {
  reached_count_ = 0;
  spend(2 * from.count);
  for (int32_t h = from.first; h < from.first + from.count; ++h) {
    const int32_t next = automaton_->next(heads_.data[h].state, byte);
    if (next >= 0) reach(next, heads_.data[h].stack);
  }
}

Matcher::Level Matcher::step(const Level& from, uint8_t byte) {
  if (!spend(1)) return {head_count_, 0};
  read(from, byte);
  return reached_count_ > 0 ? close() : Level{head_count_, 0};
}

bool Matcher::advance(uint8_t byte) {
  const Mark before = mark();
  const Level next = step(level_, byte);
  if (next.count == 0) {
    drop_after(before);
    return false;
  }
  level_ = next;
  return true;
}

bool Matcher::advance(std::string_view bytes) {
  const Level before = level_;
  for (const char c : bytes) {
    if (advance(static_cast<uint8_t>(c))) continue;
    level_ = before;
    return false;
  }
  return true;
}

/// The heads of two levels as one; the newest one.
Matcher::Level Matcher::join(const Level& a, const Level& b) {
  reached_count_ = 0;
  for (const Level& level : {a, b})
    for (int32_t h = level.first; h < level.first + level.count; ++h) reach(heads_.data[h].state, heads_.data[h].stack);
  Level both{head_count_, 0};
  for (int32_t i = 0; i < reached_count_ && both.count < kMaxHeads && head_count_ < kHeads; ++i) {
    if (reached_[i].state < 0) continue;
    heads_.data[head_count_++] = reached_[i];
    ++both.count;
  }
  return both;
}

bool Matcher::advance(TokenId token, std::string_view text) {
  const Level before = level_;
  const bool has_text = !text.empty() && !TokenCode::is_in(text) && advance(text);
  const Level by_text = level_;
  level_ = before;
  bool has_code = token < TokenCode::kMostTokens && advance(TokenCode::kMark);
  for (int place = 0; place < TokenCode::kDigits && has_code; ++place)
    has_code = advance(TokenCode::digit(token, place));
  if (has_code && has_text)
    level_ = join(by_text, level_);
  else if (has_text || has_code)
    level_ = has_text ? by_text : level_;
  else
    level_ = before;
  return has_text || has_code;
}

bool Matcher::accepts() const {
  const Head* const first = heads_.data + level_.first;
  return std::any_of(first, first + level_.count,
                     [&](const Head& h) { return h.stack == 0 && automaton_->states[h.state].accepts != 0; });
}

ByteSet Matcher::next_bytes() const {
  ByteSet bytes;
  for (int32_t h = level_.first; h < level_.first + level_.count; ++h) {
    const AutomatonState& state = automaton_->states[heads_.data[h].state];
    for (int32_t e = state.first_edge; e < state.first_edge + state.edge_count; ++e)
      bytes.add_range(automaton_->edges[e].first, automaton_->edges[e].last);
  }
  return bytes;
}

int32_t Matcher::find_forced(char* out, int32_t most, bool* ends) {
  const Mark before = mark();
  const Level level = level_;
  int32_t count = 0;
  for (; count < most && !accepts(); ++count) {
    const int byte = next_bytes().only();
    if (byte < 0 || byte == TokenCode::kMark) break;
    out[count] = static_cast<char>(byte);
    advance(static_cast<uint8_t>(byte));
  }
  *ends = accepts() && next_bytes().empty();
  level_ = level;
  drop_after(before);
  return count;
}

/// A sum, so that the order of the heads does not matter.
uint64_t Matcher::hash() const {
  uint64_t sum = 0;
  for (int32_t h = level_.first; h < level_.first + level_.count; ++h)
    sum += join_hashes(stacks_[heads_.data[h].stack].hash, static_cast<uint64_t>(heads_.data[h].state) + 1);
  return mix_bits(sum);
}

Matcher::Level Matcher::after_call(const Head& head) {
  reached_count_ = 0;
  const StackNode& top = stacks_[head.stack];
  reach(automaton_->calls[top.call].returns, top.below);
  return close();
}

Matcher::Level Matcher::copy_heads(const bool* wanted) {
  Level copy{head_count_, 0};
  for (int32_t h = 0; h < level_.count && head_count_ < kHeads; ++h) {
    if (!wanted[h]) continue;
    heads_.data[head_count_++] = heads_.data[level_.first + h];
    ++copy.count;
  }
  return copy;
}

}  // namespace ocellus

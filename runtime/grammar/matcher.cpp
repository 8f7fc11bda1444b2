#include "runtime/grammar/matcher.h"

#include <algorithm>

#include "kernels/base/hash_term.h"

namespace ocellus {
namespace {

uint64_t join(uint64_t a, uint64_t b) { return mix_bits(a * 0x9E3779B97F4A7C15 + b); }

}  // namespace

Status Matcher::lay_out(RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kSession;
  OCELLUS_TRY(take_rows(sink, "constraint heads", kLife, Phase::kNone, 1, kHeads, &heads_));
  OCELLUS_TRY(take_rows(sink, "constraint stacks", kLife, Phase::kNone, 1, kNodes, &nodes_));
  OCELLUS_TRY(take_rows(sink, "constraint stack slots", kLife, Phase::kNone, 1, kSlots, &slots_));
  node_count_ = 0;
  if (slots_.data != nullptr) std::fill(slots_.data, slots_.data + kSlots, 0);
  return take_rows(sink, "constraint stack moves", kLife, Phase::kNone, 1, kNodes, &moved_);
}

/// Texts have few stacks: removing those of the last one takes less than clearing all slots.
void Matcher::empty_stacks() {
  drop_after({0, std::min(node_count_, 1)});
  nodes_.data[0] = {};
  node_count_ = 1;
  dropped_ = 0;
}

void Matcher::begin(const Automaton& automaton) {
  automaton_ = &automaton;
  empty_stacks();
  reached_count_ = 0;
  reach(automaton.start, 0);
  level_ = close();
}

void Matcher::load(const Automaton& automaton, const MatchState& state) {
  automaton_ = &automaton;
  empty_stacks();
  moved_.data[0] = 0;
  for (int32_t n = 1; n < state.node_count; ++n) {
    const StackNode& node = state.nodes[n];
    moved_.data[n] = push(node.call, node.count, moved_.data[node.below]);
  }
  for (int32_t h = 0; h < state.head_count; ++h)
    heads_.data[h] = {state.heads[h].state, moved_.data[state.heads[h].stack]};
  level_ = {0, state.head_count};
  head_count_ = state.head_count;
}

/// Nodes stand after those below them, so that one pass moves all that are needed.
Status Matcher::store(MatchState* state) {
  std::fill(moved_.data, moved_.data + node_count_, -1);
  for (int32_t h = 0; h < level_.count; ++h)
    for (int32_t n = heads_.data[level_.first + h].stack; n > 0 && moved_.data[n] < 0; n = nodes_.data[n].below)
      moved_.data[n] = 0;
  int32_t count = 1;
  state->nodes[0] = {};
  moved_.data[0] = 0;
  for (int32_t n = 1; n < node_count_; ++n) {
    if (moved_.data[n] < 0) continue;
    if (count == kMaxStackNodes)
      return OCELLUS_FAIL(Code::kUnsupported, "the constraint leaves too many ways to read the answer so far");
    state->nodes[count] = nodes_.data[n];
    state->nodes[count].below = moved_.data[nodes_.data[n].below];
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

int32_t Matcher::slot_of(int32_t call, int32_t count, int32_t below, uint64_t hash) const {
  auto slot = static_cast<int32_t>(hash % kSlots);
  for (; slots_.data[slot] != 0; slot = (slot + 1) % kSlots) {
    const StackNode& node = nodes_.data[slots_.data[slot] - 1];
    if (node.call == call && node.count == count && node.below == below) break;
  }
  return slot;
}

/// Returns the node; -1 if there is no room.
int32_t Matcher::push(int32_t call, int32_t count, int32_t below) {
  const StackNode& under = nodes_.data[below];
  const uint64_t content = static_cast<uint64_t>(call) << 32 | static_cast<uint32_t>(count);
  const uint64_t hash = join(under.hash, content + 1);
  const int32_t slot = slot_of(call, count, below, hash);
  if (slots_.data[slot] != 0) return slots_.data[slot] - 1;
  if (node_count_ == kNodes || under.depth == kMaxCallDepth) {
    ++dropped_;
    return -1;
  }
  nodes_.data[node_count_] = {call, count, below, under.depth + 1, hash};
  slots_.data[slot] = node_count_ + 1;
  return node_count_++;
}

/// The newest nodes are dropped first, so that no other one stands in a slot that it was moved to by them.
void Matcher::drop_after(const Mark& mark) {
  head_count_ = std::max(mark.heads, kept_.heads);
  while (node_count_ > std::max(mark.nodes, kept_.nodes)) {
    const StackNode& node = nodes_.data[--node_count_];
    slots_.data[slot_of(node.call, node.count, node.below, node.hash)] = 0;
  }
}

void Matcher::reach(int32_t state, int32_t stack) {
  const Head way{state, stack};
  if (std::find(reached_, reached_ + reached_count_, way) != reached_ + reached_count_) return;
  if (reached_count_ == kMaxReached)
    ++dropped_;
  else
    reached_[reached_count_++] = way;
}

/// The callee of the top of a stack has ended: it is called again, or what follows the call is read.
void Matcher::end_call(int32_t stack) {
  const StackNode node = nodes_.data[stack];
  const AutomatonCall& call = automaton_->calls[node.call];
  if (node.count < call.most) {
    // Counts past the least one do not matter where there is no most.
    const int32_t count = call.most == kUnbounded ? std::min(node.count + 1, call.least + 1) : node.count + 1;
    const int32_t again = push(node.call, count, node.below);
    if (again >= 0) reach(call.callee, again);
  }
  if (node.count >= call.least) reach(call.returns, node.below);
}

/// Follows calls and their ends from what was reached; the ways from which a byte can be read, or at which the text may
/// end, are the next heads.
Matcher::Level Matcher::close() {
  Level level{head_count_, 0};
  for (int32_t i = 0; i < reached_count_; ++i) {
    const Head way = reached_[i];
    const AutomatonState& state = automaton_->states[way.state];
    if (state.edge_count > 0 || (state.accepts != 0 && way.stack == 0)) {
      if (level.count == kMaxHeads || head_count_ == kHeads) {
        ++dropped_;
      } else {
        heads_.data[head_count_++] = way;
        ++level.count;
      }
    }
    for (int32_t c = state.first_call; c < state.first_call + state.call_count; ++c) {
      const AutomatonCall& call = automaton_->calls[c];
      const int32_t stack = automaton_->is_last(call) ? way.stack : push(c, 1, way.stack);
      if (stack >= 0) reach(call.callee, stack);
    }
    if (state.accepts != 0 && way.stack != 0) end_call(way.stack);
  }
  return level;
}

/// The ways after a byte, calls and their ends not yet followed.
void Matcher::read(const Level& from, uint8_t byte) {
  reached_count_ = 0;
  for (int32_t h = from.first; h < from.first + from.count; ++h) {
    const int32_t next = automaton_->next(heads_.data[h].state, byte);
    if (next >= 0) reach(next, heads_.data[h].stack);
  }
}

Matcher::Level Matcher::step(const Level& from, uint8_t byte) {
  read(from, byte);
  return reached_count_ > 0 ? close() : Level{head_count_, 0};
}

/// Known ways take a quarter of the room at most.
Matcher::Level Matcher::step_once(const Level& from, uint8_t byte) {
  read(from, byte);
  if (reached_count_ != 1) return reached_count_ > 0 ? close() : Level{head_count_, 0};
  const Head way = reached_[0];
  Known& known = known_[static_cast<uint32_t>(way.state + 31 * way.stack) % kKnown];
  if (known.way == way) return known.level;
  const Level level = close();
  if (head_count_ < kHeads / 4 && node_count_ < kNodes / 4) {
    known = {way, level};
    kept_ = mark();
  }
  return level;
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
    if (byte < 0) break;
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
    sum += join(nodes_.data[heads_.data[h].stack].hash, static_cast<uint64_t>(heads_.data[h].state) + 1);
  return mix_bits(sum);
}

Matcher::Level Matcher::after_call(const Head& head) {
  reached_count_ = 0;
  const StackNode& top = nodes_.data[head.stack];
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

#include "runtime/branches/constrain/grammar/token_spans.h"

#include <algorithm>
#include <cstring>

#include "kernels/base/hash_term.h"
#include "runtime/branches/constrain/grammar/text_after.h"

namespace ocellus {
namespace {

constexpr int64_t kReadSteps = 4096;  // a machine's table

/// Items are counted by tables of their own up to this number of states.
constexpr int kMostStates = 64;

}  // namespace

/// The machine of an item as a table. An item that has ended never goes on.
class ItemMachine {
 public:
  static constexpr uint8_t kNone = 255;

  /// False if it is no machine of this kind.
  bool read(const Automaton& automaton, int32_t callee) {
    int32_t states[kMostStates] = {callee};
    std::memset(next_, kNone, sizeof next_);
    count_ = 1;
    int first_bytes = 0;
    for (int i = 0; i < count_; ++i) {
      const AutomatonState& state = automaton.states[states[i]];
      if (state.call_count > 0 || (state.accepts != 0) == (state.edge_count > 0)) return false;
      ends_[i] = state.accepts != 0;
      for (int32_t e = state.first_edge; e < state.first_edge + state.edge_count; ++e) {
        const AutomatonEdge& edge = automaton.edges[e];
        const auto known = static_cast<int>(std::find(states, states + count_, edge.next) - states);
        if (known == kMostStates) return false;
        if (known == count_) states[count_++] = edge.next;
        for (int byte = edge.first; byte <= edge.last; ++byte) next_[i][byte] = static_cast<uint8_t>(known);
        if (i == 0) first_bytes += edge.last - edge.first + 1;
      }
    }
    return first_bytes >= kBroadBytes;
  }

  /// Equal for machines that are the same table.
  uint64_t hash() const {
    uint64_t hash = static_cast<uint64_t>(count_);
    for (int i = 0; i < count_; ++i) {
      hash = mix_bits(hash * 2 + (ends_[i] ? 1 : 0));
      for (int byte = 0; byte < 256; byte += 8) {
        uint64_t eight;
        std::memcpy(&eight, next_[i] + byte, sizeof eight);
        hash = mix_bits(hash * 0x9E3779B97F4A7C15 + eight);
      }
    }
    return hash;
  }

  /// Calls visit(offset, items) where whole items of the text end before its own end. Returns the number of items that
  /// the text is, a begun one included; -1 if it leaves them.
  template <class Visit>
  int read_items(std::string_view text, Visit visit) const {
    int state = 0, items = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      if (state == 0 && i > 0) visit(static_cast<int>(i), items);
      const uint8_t next = next_[state][static_cast<uint8_t>(text[i])];
      if (next == kNone) return -1;
      items += ends_[next] ? 1 : 0;
      state = ends_[next] ? 0 : next;
    }
    return state == 0 ? items : items + 1;
  }

 private:
  uint8_t next_[kMostStates][256];
  bool ends_[kMostStates];
  int count_ = 0;
};

namespace {

void add_edges(const Automaton& automaton, int32_t state, ByteSet* out) {
  const AutomatonState& s = automaton.states[state];
  for (int32_t e = s.first_edge; e < s.first_edge + s.edge_count; ++e)
    out->add_range(automaton.edges[e].first, automaton.edges[e].last);
}

/// Bytes that may follow the items of any call of this callee; more than those where that is hard to tell.
ByteSet bytes_after(const Automaton& automaton, int32_t callee) {
  ByteSet after, anywhere;
  bool leaves = false;
  for (int64_t c = 0; c < automaton.call_count; ++c) {
    const AutomatonCall& call = automaton.calls[c];
    add_edges(automaton, call.returns, &anywhere);
    add_edges(automaton, call.callee, &anywhere);
    if (call.callee != callee) continue;
    add_edges(automaton, call.returns, &after);
    const AutomatonState& state = automaton.states[call.returns];
    leaves = leaves || state.accepts != 0 || state.call_count > 0;
  }
  return leaves ? anywhere : after;
}

/// Kinds of items of counted calls: machines that are the same table are one kind.
struct ItemKinds {
  struct Kind {
    int32_t callee = 0;  // one of its machines
    uint64_t hash = 0;
    ByteSet after;  // bytes that may follow the items
  };
  Kind at[TokenSpans::kMost];
  int32_t count = 0;

  /// The kind of a machine; -1 if it has none. spend(steps) tells if there are steps left to look.
  template <class Spend>
  int32_t find(const Automaton& automaton, int32_t callee, Spend spend) {
    const auto known = static_cast<int32_t>(std::find(callees_, callees_ + callee_count_, callee) - callees_);
    if (known < callee_count_) return kinds_[known];
    if (known == TokenSpans::kMostMachines || !spend(kReadSteps + automaton.call_count)) return -1;
    ++callee_count_;
    callees_[known] = callee;
    return kinds_[known] = look_at(automaton, callee);
  }

 private:
  int32_t look_at(const Automaton& automaton, int32_t callee) {
    ItemMachine machine;
    if (!machine.read(automaton, callee)) return -1;
    const uint64_t hash = machine.hash();
    const auto kind =
        static_cast<int32_t>(std::find_if(at, at + count, [&](const Kind& one) { return one.hash == hash; }) - at);
    if (kind == TokenSpans::kMost) return -1;
    if (kind == count) at[count++] = {callee, hash, {}};
    at[kind].after.add_all(bytes_after(automaton, callee));
    return kind;
  }

  int32_t callees_[TokenSpans::kMostMachines];
  int32_t kinds_[TokenSpans::kMostMachines];
  int32_t callee_count_ = 0;
};

}  // namespace

/// The tables of one kind of items, which the bytes `after` may follow. False if they do not fit.
bool TokenSpans::add(const ItemMachine& machine, const ByteSet& after, const TokenTrie& tokens, Workspace* workspace) {
  int64_t exit_count = 0, rest_bytes = 0;
  const auto visit_exits = [&](auto visit) {
    for (int32_t entry = 0; entry < tokens.count(); ++entry) {
      const std::string_view text = tokens.text(entry);
      const auto leave = [&](int rest, int items) {
        if (after.has(static_cast<uint8_t>(text[static_cast<size_t>(rest)])) && items <= TokenSpan::kMaxItems)
          visit(entry, rest, items);
      };
      machine.read_items(text, leave);
    }
  };
  visit_exits([&](int32_t entry, int rest, int) {
    ++exit_count;
    rest_bytes += static_cast<int64_t>(tokens.text(entry).size()) - rest;
  });
  const int64_t vocabulary = tokens.tokenizer().token_count();
  const int64_t sizes[] = {vocabulary, tokens.words() * 4, exit_count * int64_t{sizeof(SpanExit)},
                           (rest_bytes + 1) * int64_t{sizeof(ByteTrie::Node)}};
  int64_t bytes = 0;
  for (const int64_t size : sizes) bytes += round_up(size, 16);
  if (bytes > workspace->left()) return false;
  TokenSpan& span = spans[count];
  GrowingArray<uint8_t> items = workspace->take<uint8_t>(sizes[0]);
  GrowingArray<uint32_t> stays = workspace->take<uint32_t>(sizes[1]);
  GrowingArray<SpanExit> exits = workspace->take<SpanExit>(sizes[2]);
  GrowingArray<ByteTrie::Node> nodes = workspace->take<ByteTrie::Node>(sizes[3]);
  if (!items.resize(vocabulary, TokenSpan::kLeaves) || !stays.resize(tokens.words(), 0)) return false;
  for (int32_t entry = 0; entry < tokens.count(); ++entry) {
    const TokenId token = tokens.token(entry);
    const int number = machine.read_items(tokens.text(entry), [](int, int) {});
    if (number < 0) continue;
    add_token(stays.data(), token);
    items[token] = static_cast<uint8_t>(std::min<int>(number, TokenSpan::kLeaves));
  }
  visit_exits([&](int32_t entry, int rest, int number) {
    exits.push({tokens.token(entry), static_cast<int16_t>(number), static_cast<int16_t>(rest)});
  });
  const auto rest_of = [&](const SpanExit& exit) {
    return text_after(tokens.tokenizer().piece(exit.token, false), static_cast<size_t>(exit.rest));
  };
  std::sort(exits.begin(), exits.end(), [&](const SpanExit& a, const SpanExit& b) {
    const int order = rest_of(a).compare(rest_of(b));
    return order != 0 ? order < 0 : a.token < b.token;
  });
  const auto text = [&](int32_t i) { return rest_of(exits[i]); };
  if (!build_trie(static_cast<int32_t>(exit_count), text, &nodes, &span.rests)) return false;
  span.items = items.data();
  span.stays = stays.data();
  span.exits = exits.data();
  ++count;
  return true;
}

void TokenSpans::build(const Automaton& automaton, AutomatonCall* calls, const TokenTrie& tokens, Workspace* workspace,
                       StepMeter* meter) {
  const auto spend = [&](int64_t steps) {
    return meter == nullptr || (meter->left() / 2 > steps && meter->spend(steps));
  };
  ItemKinds kinds;
  for (int64_t c = 0; c < automaton.call_count; ++c)
    if (calls[c].counts()) calls[c].span = kinds.find(automaton, calls[c].callee, spend);
  int32_t span_of[kMost];
  const int64_t steps = 4 * tokens.tokenizer().facts().text_bytes;
  count = 0;
  for (int32_t k = 0; k < kinds.count; ++k) {
    ItemMachine machine;
    const bool fits = spend(steps) && machine.read(automaton, kinds.at[k].callee) &&
                      add(machine, kinds.at[k].after, tokens, workspace);
    span_of[k] = fits ? count - 1 : -1;
  }
  for (int64_t c = 0; c < automaton.call_count; ++c)
    if (calls[c].span >= 0) calls[c].span = span_of[calls[c].span];
}

}  // namespace ocellus

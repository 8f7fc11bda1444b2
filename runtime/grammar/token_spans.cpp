#include "runtime/grammar/token_spans.h"

#include <algorithm>
#include <cstring>

#include "runtime/grammar/text_after.h"

namespace ocellus {
namespace {

/// Items are counted by tables of their own up to this number of states.
constexpr int kMostStates = 64;

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

}  // namespace

/// The tables of one kind of items. False if they do not fit.
bool TokenSpans::add(const Automaton& automaton, int32_t callee, const TokenTrie& tokens, Workspace* workspace) {
  ItemMachine machine;
  if (count == kMost || !machine.read(automaton, callee)) return false;
  const ByteSet after = bytes_after(automaton, callee);
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
  span.callee = callee;
  span.items = items.data();
  span.stays = stays.data();
  span.exits = exits.data();
  ++count;
  return true;
}

void TokenSpans::build(const Automaton& automaton, AutomatonCall* calls, const TokenTrie& tokens,
                       Workspace* workspace) {
  count = 0;
  for (int64_t c = 0; c < automaton.call_count; ++c) {
    AutomatonCall& call = calls[c];
    if (!call.counts()) continue;
    const auto is_its_own = [&](const TokenSpan& span) { return span.callee == call.callee; };
    int32_t number = static_cast<int32_t>(std::find_if(spans, spans + count, is_its_own) - spans);
    if (number == count && !add(automaton, call.callee, tokens, workspace)) number = -1;
    call.span = number;
  }
}

}  // namespace ocellus

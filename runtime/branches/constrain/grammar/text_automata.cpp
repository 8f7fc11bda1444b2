#include "runtime/branches/constrain/grammar/text_automata.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/base/hash_term.h"
#include "runtime/branches/constrain/grammar/determinize.h"

namespace ocellus {
namespace {

Status no_room() {
  return OCELLUS_FAIL(Code::kFull,
                      "conditions that hold together have more states than the memory of a constraint: write "
                      "smaller counts or simpler patterns");
}

/// Tables are moved to where they stay by units of this size.
constexpr int64_t kAlign = 16;

/// The letter after the backslash with which JSON writes a byte; 0: it is written as it is, or not at all.
uint8_t escape_letter(int byte) {
  switch (byte) {
    case '"':
    case '\\': return static_cast<uint8_t>(byte);
    case '\b': return 'b';
    case '\f': return 'f';
    case '\n': return 'n';
    case '\r': return 'r';
    case '\t': return 't';
    default: return 0;
  }
}

/// Next states of one state by bytes; -1: none.
class StateTable {
 public:
  StateTable() { std::fill(std::begin(next_), std::end(next_), -1); }
  int32_t& operator[](int byte) { return next_[byte]; }
  /// False if there is no room.
  bool push_edges(GrowingArray<AutomatonEdge>* edges) const {
    for (int first = 0; first < 256; ++first) {
      if (next_[first] < 0) continue;
      int last = first;
      while (last < 255 && next_[last + 1] == next_[first]) ++last;
      if (!edges->push({next_[first], static_cast<uint8_t>(first), static_cast<uint8_t>(last)})) return false;
      first = last;
    }
    return true;
  }

 private:
  int32_t next_[256];
};

/// Opens the row of a state whose edges follow.
AutomatonState begin_state(const GrowingArray<AutomatonEdge>& edges, bool accepts) {
  AutomatonState state;
  state.first_edge = static_cast<int32_t>(edges.count());
  state.accepts = accepts ? 1 : 0;
  return state;
}

bool end_state(AutomatonState state, const GrowingArray<AutomatonEdge>& edges, GrowingArray<AutomatonState>* states) {
  state.edge_count = static_cast<uint16_t>(edges.count() - state.first_edge);
  return states->push(state);
}

}  // namespace

/// State of a product: of the automaton, and of what it is multiplied with.
struct TextAutomata::Pair {
  int32_t a = 0, b = 0;
  int32_t next = -1;  // another pair of the same hash
};

/// States that were met, numbered in the order of that.
class TextAutomata::Product {
 public:
  explicit Product(Workspace* workspace) {
    constexpr int64_t kBuckets = 4096;
    buckets_ = workspace->take<int32_t>(kBuckets * int64_t{sizeof(int32_t)});
    pairs_ = workspace->take<Pair>(workspace->left() - kAlign);
    has_room_ = buckets_.resize(kBuckets, -1);
  }
  int32_t find_or_add(int32_t a, int32_t b, const Grammar& grammar) {
    if (!has_room_) return 0;
    const uint64_t hash = mix_bits(static_cast<uint64_t>(static_cast<uint32_t>(a)) << 32 | static_cast<uint32_t>(b));
    int32_t& bucket = buckets_[static_cast<int64_t>(hash >> 40) % buckets_.count()];
    for (int32_t p = bucket; p != -1 && grammar.spend(1); p = pairs_[p].next)
      if (pairs_[p].a == a && pairs_[p].b == b) return p;
    has_room_ = pairs_.push({a, b, bucket});
    return has_room_ ? bucket = static_cast<int32_t>(pairs_.count() - 1) : 0;
  }
  bool has_room() const { return has_room_; }
  int64_t count() const { return pairs_.count(); }
  const Pair& operator[](int64_t i) const { return pairs_[i]; }

 private:
  GrowingArray<int32_t> buckets_;
  GrowingArray<Pair> pairs_;
  bool has_room_ = true;
};

/// Leaves out states that lead to no end, and moves the rest to where it stays. The states lie where the rest of the
/// memory begins, the edges after them.
Status TextAutomata::keep(GrowingArray<AutomatonState>* states, GrowingArray<AutomatonEdge>* edges,
                          Workspace* workspace, Automaton* out) {
  GrowingArray<int32_t> numbers = workspace->take<int32_t>(states->count() * int64_t{sizeof(int32_t)});
  if (!numbers.resize(states->count(), -1)) return no_room();
  for (bool changed = true; changed && grammar_.spend(states->count() + edges->count());) {
    changed = false;
    for (int64_t s = states->count(); s-- > 0;) {
      const AutomatonState& state = (*states)[s];
      const AutomatonEdge* const first = edges->data() + state.first_edge;
      const bool leads =
          state.accepts != 0 ||
          std::any_of(first, first + state.edge_count, [&](const AutomatonEdge& e) { return numbers[e.next] == 0; });
      changed = changed || (leads && numbers[s] != 0);
      if (leads) numbers[s] = 0;
    }
  }
  OCELLUS_TRY(grammar_.status());
  int32_t state_count = 0, edge_count = 0;
  for (int32_t& number : numbers) number = number == 0 ? state_count++ : -1;
  if (state_count == 0 || numbers[0] != 0) return *out = {}, Status();
  for (int64_t s = 0; s < states->count(); ++s) {
    if (numbers[s] < 0) continue;
    AutomatonState state = (*states)[s];
    const int32_t first = state.first_edge;
    state.first_edge = edge_count;
    for (int32_t e = first; e < first + state.edge_count; ++e) {
      AutomatonEdge edge = (*edges)[e];
      edge.next = numbers[edge.next];
      if (edge.next >= 0) (*edges)[edge_count++] = edge;
    }
    state.edge_count = static_cast<uint16_t>(edge_count - state.first_edge);
    (*states)[numbers[s]] = state;
  }
  const int64_t state_bytes = round_up(state_count * int64_t{sizeof(AutomatonState)}, kAlign);
  AutomatonEdge* const moved = reinterpret_cast<AutomatonEdge*>(rest().data + state_bytes);
  std::memmove(moved, edges->data(), static_cast<size_t>(edge_count) * sizeof(AutomatonEdge));
  *out = {.states = states->data(), .edges = moved, .state_count = state_count, .edge_count = edge_count};
  used_ += state_bytes + round_up(edge_count * int64_t{sizeof(AutomatonEdge)}, kAlign);
  return {};
}

Status TextAutomata::make(Expression e, Expression first, Automaton* out) {
  Workspace workspace(rest());
  AutomatonTables tables;
  tables.states = workspace.take<AutomatonState>(workspace.left() / 8);
  tables.edges = workspace.take<AutomatonEdge>(workspace.left() / 4);
  GrammarFacts facts;
  OCELLUS_TRY(facts.find(grammar_, e, ByteSet().add_range(0, 255), &workspace, first));
  if (!facts.of(e).is_productive) return *out = {}, Status();
  const int64_t nodes = workspace.left() / 48;
  GrowingArray<int32_t> node_memory = workspace.take<int32_t>(nodes * int64_t{sizeof(int32_t)});
  GrowingArray<NfaEdge> edge_memory = workspace.take<NfaEdge>(nodes * int64_t{sizeof(NfaEdge)});
  NfaBuilder nfa(&facts, nullptr, nullptr, node_memory, edge_memory);
  Determinizer determinizer;
  OCELLUS_TRY(determinizer.open(nodes, &workspace));
  OCELLUS_TRY(nfa.build(e));
  OCELLUS_TRY(determinizer.run(nfa, false, &tables));
  Workspace scratch({reinterpret_cast<std::byte*>(node_memory.data()), 1, nodes * int64_t{sizeof(int32_t)}});
  OCELLUS_TRY(keep(&tables.states, &tables.edges, &scratch, out));
  return merge_equal(out);
}

/// Merges states from which the same texts lead to an end (Moore 1956, "Gedanken-experiments on sequential machines"):
/// at first all that accept are equal and all others, then states part whose edges lead to different ones, until none
/// do. Leaves the automaton as it is if that takes many rounds or the memory is too small.
Status TextAutomata::merge_equal(Automaton* automaton) {
  constexpr int kMostRounds = 64;
  constexpr int64_t kBuckets = 1024;
  Workspace workspace(rest());
  const int64_t count = automaton->state_count;
  const auto take = [&](int64_t size, int32_t value) {
    GrowingArray<int32_t> array = workspace.take<int32_t>(size * int64_t{sizeof(int32_t)});
    array.resize(size, value);
    return array;
  };
  GrowingArray<int32_t> equal = take(count, 0), parted = take(count, 0), later = take(count, -1),
                        buckets = take(kBuckets, -1);
  if (buckets.count() < kBuckets) return {};
  for (int64_t s = 0; s < count; ++s) equal[s] = automaton->states[s].accepts;
  const auto are_alike = [&](int64_t a, int64_t b) {
    const AutomatonState &x = automaton->states[a], &y = automaton->states[b];
    const AutomatonEdge* const first = automaton->edges + x.first_edge;
    return equal[a] == equal[b] && x.edge_count == y.edge_count &&
           std::equal(first, first + x.edge_count, automaton->edges + y.first_edge,
                      [&](const AutomatonEdge& e, const AutomatonEdge& f) {
                        return e.first == f.first && e.last == f.last && equal[e.next] == equal[f.next];
                      });
  };
  int32_t classes = 0, before = -1;
  for (int round = 0; round < kMostRounds && classes != before; ++round) {
    if (!grammar_.spend(kBuckets + 8 * count + 8 * automaton->edge_count)) return grammar_.status();
    std::fill(buckets.begin(), buckets.end(), -1);
    before = std::exchange(classes, 0);
    for (int64_t s = 0; s < count; ++s) {
      uint64_t hash = static_cast<uint64_t>(equal[s]);
      automaton->visit_edges(static_cast<int32_t>(s), [&](const AutomatonEdge& edge) {
        hash = mix_bits(hash ^ static_cast<uint64_t>(equal[edge.next]) ^ static_cast<uint64_t>(edge.first) << 32 ^
                        static_cast<uint64_t>(edge.last) << 40);
      });
      int32_t& bucket = buckets[static_cast<int64_t>(hash % kBuckets)];
      int32_t alike = bucket;
      while (alike != -1 && grammar_.spend(4) && !are_alike(s, alike)) alike = later[alike];
      if (alike == -1) {  // the first of its kind
        later[s] = std::exchange(bucket, static_cast<int32_t>(s));
        parted[s] = classes++;
      } else {
        parted[s] = parted[alike];
      }
    }
    std::copy(parted.begin(), parted.end(), equal.begin());
  }
  OCELLUS_TRY(grammar_.status());
  if (classes != before || classes == count) return {};
  keep_firsts(equal, automaton);
  return {};
}

/// Keeps the first state of each class, which are numbered in that order. The start stays the first one.
void TextAutomata::keep_firsts(const GrowingArray<int32_t>& classes, Automaton* automaton) {
  AutomatonState* const states = const_cast<AutomatonState*>(automaton->states);
  AutomatonEdge* const edges = const_cast<AutomatonEdge*>(automaton->edges);
  int32_t state_count = 0, edge_count = 0;
  for (int64_t s = 0; s < automaton->state_count; ++s) {
    if (classes[s] != state_count) continue;
    AutomatonState state = states[s];
    const int32_t first = std::exchange(state.first_edge, edge_count);
    for (int32_t e = first; e < first + state.edge_count; ++e) {
      AutomatonEdge edge = edges[e];
      edge.next = classes[edge.next];
      edges[edge_count++] = edge;
    }
    states[state_count++] = state;
  }
  automaton->state_count = state_count;
  automaton->edge_count = edge_count;
}

/// Walks the automaton and something else side by side. accepts(a's, the other) tells if a pair of states is an end,
/// and step(the other, edge, visit) calls visit(first, last, next other) for the parts of an edge.
template <class Accepts, class Step>
Status TextAutomata::multiply(const Automaton& a, int32_t start, Accepts accepts, Step step, Automaton* out) {
  if (a.state_count == 0) return *out = {}, Status();
  Workspace workspace(rest());
  GrowingArray<AutomatonState> states = workspace.take<AutomatonState>(workspace.left() / 4);
  GrowingArray<AutomatonEdge> edges = workspace.take<AutomatonEdge>(workspace.left() / 3 * 2);
  Workspace scratch = workspace;  // free again when the tables are kept
  Product pairs(&workspace);
  pairs.find_or_add(0, start, grammar_);
  bool fits = pairs.has_room();
  for (int64_t i = 0; i < pairs.count() && fits && grammar_.spend(8); ++i) {
    const Pair pair = pairs[i];
    const AutomatonState& from = a.states[pair.a];
    const AutomatonState row = begin_state(edges, accepts(from.accepts != 0, pair.b));
    for (int32_t e = from.first_edge; e < from.first_edge + from.edge_count; ++e) {
      const AutomatonEdge& edge = a.edges[e];
      step(pair.b, edge, [&](int first, int last, int32_t other) {
        const int32_t next = pairs.find_or_add(edge.next, other, grammar_);
        fits = fits && grammar_.spend(4) && edges.push({next, static_cast<uint8_t>(first), static_cast<uint8_t>(last)});
      });
    }
    fits = fits && pairs.has_room() && end_state(row, edges, &states);
  }
  OCELLUS_TRY(grammar_.status());
  return fits ? keep(&states, &edges, &scratch, out) : no_room();
}

Status TextAutomata::join(const Automaton& a, const Automaton& b, Automaton* out) {
  if (b.state_count == 0) return *out = {}, Status();
  const auto accepts = [&](bool a_accepts, int32_t s) { return a_accepts && b.states[s].accepts != 0; };
  return multiply(
      a, 0, accepts,
      [&](int32_t s, const AutomatonEdge& edge, auto visit) {
        const AutomatonEdge* const first = b.edges + b.states[s].first_edge;
        for (const AutomatonEdge* other = first; other < first + b.states[s].edge_count; ++other) {
          const int begin = std::max(edge.first, other->first), end = std::min(edge.last, other->last);
          if (begin <= end) visit(begin, end, other->next);
        }
      },
      out);
}

Status TextAutomata::subtract(const Automaton& a, const Automaton& b, Automaton* out) {
  constexpr int32_t kLeft = -1;  // the text has left the second one
  const auto accepts = [&](bool a_accepts, int32_t s) { return a_accepts && (s == kLeft || b.states[s].accepts == 0); };
  return multiply(
      a, b.state_count == 0 ? kLeft : 0, accepts,
      [&](int32_t s, const AutomatonEdge& edge, auto visit) {
        int at = edge.first;
        const int32_t first = s == kLeft ? 0 : b.states[s].first_edge;
        const int32_t count = s == kLeft ? 0 : b.states[s].edge_count;
        for (int32_t e = first; e < first + count; ++e) {
          const int begin = std::max<int>(at, b.edges[e].first), end = std::min(edge.last, b.edges[e].last);
          if (begin > end) continue;
          if (at < begin) visit(at, begin - 1, kLeft);
          visit(begin, end, b.edges[e].next);
          at = end + 1;
        }
        if (at <= edge.last) visit(at, edge.last, kLeft);
      },
      out);
}

Status TextAutomata::limit(const Automaton& a, int32_t least, int32_t most, Automaton* out) {
  const auto accepts = [&](bool a_accepts, int32_t count) { return a_accepts && count >= least; };
  return multiply(
      a, 0, accepts,
      [&](int32_t count, const AutomatonEdge& edge, auto visit) {
        const bool continues = edge.first >= 0x80 && edge.first < 0xC0;  // no character begins
        if (!continues && count == most) return;
        const int32_t next = continues ? count : count + 1;
        visit(edge.first, edge.last, most == kUnbounded ? std::min(next, least) : next);
      },
      out);
}

Status TextAutomata::multiples(int32_t of, Automaton* out) {
  Workspace workspace(rest());
  GrowingArray<AutomatonState> states = workspace.take<AutomatonState>(workspace.left() / 4);
  GrowingArray<AutomatonEdge> edges = workspace.take<AutomatonEdge>(workspace.left() / 2);
  constexpr int32_t kFirst = 2;  // state of remainder 0: the start and what follows a sign stand before it
  bool fits = grammar_.spend(int64_t{24} * of);
  for (int32_t s = 0; s < kFirst + of && fits; ++s) {
    const AutomatonState row = begin_state(edges, s == kFirst);
    const int64_t before = s < kFirst ? 0 : s - kFirst;
    if (s == 0) fits = edges.push({1, '-', '-'});
    for (int64_t digit = 0; digit < 10; ++digit) {
      const auto byte = static_cast<uint8_t>('0' + digit);
      fits = fits && edges.push({static_cast<int32_t>(kFirst + (10 * before + digit) % of), byte, byte});
    }
    fits = fits && end_state(row, edges, &states);
  }
  OCELLUS_TRY(grammar_.status());
  return fits ? keep(&states, &edges, &workspace, out) : no_room();
}

/// A state after a backslash is added for each that has one, after all others.
Status TextAutomata::spell_json(const Automaton& a, Automaton* out) {
  Workspace workspace(rest());
  GrowingArray<AutomatonState> states = workspace.take<AutomatonState>(workspace.left() / 4);
  GrowingArray<AutomatonEdge> edges = workspace.take<AutomatonEdge>(workspace.left() / 3 * 2);
  auto escaped = static_cast<int32_t>(a.state_count);
  bool fits = true;
  for (const bool after_backslash : {false, true}) {
    for (int64_t s = 0; s < a.state_count && fits && grammar_.spend(512); ++s) {
      StateTable plain, letters;
      bool has_letters = false;
      const AutomatonState& state = a.states[s];
      for (int32_t e = state.first_edge; e < state.first_edge + state.edge_count; ++e) {
        for (int byte = a.edges[e].first; byte <= a.edges[e].last; ++byte) {
          const uint8_t letter = escape_letter(byte);
          if (letter == 0 && byte >= ' ') plain[byte] = a.edges[e].next;
          if (letter != 0) letters[letter] = a.edges[e].next;
          has_letters = has_letters || letter != 0;
        }
      }
      if (after_backslash && !has_letters) continue;
      if (!after_backslash && has_letters) plain['\\'] = escaped++;
      const AutomatonState row = begin_state(edges, !after_backslash && state.accepts != 0);
      fits = (after_backslash ? letters : plain).push_edges(&edges) && end_state(row, edges, &states);
    }
  }
  OCELLUS_TRY(grammar_.status());
  return fits ? keep(&states, &edges, &workspace, out) : no_room();
}

bool accepts(const Automaton& automaton, std::string_view text) {
  int32_t state = automaton.state_count > 0 ? 0 : -1;
  for (size_t i = 0; i < text.size() && state >= 0; ++i) state = automaton.next(state, static_cast<uint8_t>(text[i]));
  return state >= 0 && automaton.states[state].accepts != 0;
}

}  // namespace ocellus

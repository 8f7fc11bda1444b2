#include "runtime/branches/constrain/grammar/compile_grammar.h"

#include <algorithm>
#include <cstring>

#include "runtime/branches/constrain/grammar/determinize.h"

namespace ocellus {
namespace {

/// State of a machine in a walk over the machines' beginnings.
enum class Visit : uint8_t { kNone, kOpen, kDone };

class Compiler {
 public:
  Compiler(const Grammar& grammar, HostView<std::byte> memory) : grammar_(grammar), memory_(memory) {}

  Status run(Expression start, const ByteSet& spelled);
  Status refuse_left_recursion();
  /// Moves the tables to the beginning of the memory, one after the other; returns their bytes.
  int64_t settle(Automaton* out);

 private:
  void take_memory(Workspace* workspace);
  void link_calls();
  Status visit(int32_t machine, GrowingArray<int32_t>* path);
  bool visit_first_calls(int32_t machine, GrowingArray<int32_t>* states, GrowingArray<int32_t>* path);

  const Grammar& grammar_;
  HostView<std::byte> memory_;
  AutomatonTables tables_;
  GrammarFacts facts_;
  GrowingArray<MachineSource> machines_;
  GrowingArray<CallSymbol> symbols_;
  GrowingArray<int32_t> starts_;   // by machine: its first state; the last one: the number of states
  GrowingArray<Visit> visits_;     // by machine
  GrowingArray<int32_t> reached_;  // states that a machine may be in before its first byte
  GrowingArray<int32_t> path_;
};

/// Tables first, so that they move little.
void Compiler::take_memory(Workspace* workspace) {
  const int64_t share = memory_.cols / 16;
  tables_.states = workspace->take<AutomatonState>(2 * share);
  tables_.edges = workspace->take<AutomatonEdge>(3 * share);
  tables_.calls = workspace->take<AutomatonCall>(share);
  machines_ = workspace->take<MachineSource>(share / 4);
  symbols_ = workspace->take<CallSymbol>(share / 4);
  starts_ = workspace->take<int32_t>(share / 8);
  visits_ = workspace->take<Visit>(share / 16);
  path_ = workspace->take<int32_t>(share / 8);
}

Status Compiler::run(Expression start, const ByteSet& spelled) {
  Workspace workspace(memory_);
  take_memory(&workspace);
  OCELLUS_TRY(facts_.find(grammar_, start, spelled, &workspace));
  if (!facts_.of(start).is_productive)
    return OCELLUS_FAIL(Code::kUnsupported,
                        "no text satisfies the constraint: it contradicts itself, never ends, or needs bytes that the "
                        "model's vocabulary cannot spell");
  const int64_t nodes = workspace.left() / 48;
  GrowingArray<int32_t> node_memory = workspace.take<int32_t>(nodes * int64_t{sizeof(int32_t)});
  GrowingArray<NfaEdge> edge_memory = workspace.take<NfaEdge>(nodes * int64_t{sizeof(NfaEdge)});
  NfaBuilder nfa(&facts_, &machines_, &symbols_, node_memory, edge_memory);
  Determinizer determinizer;
  OCELLUS_TRY(determinizer.open(nodes, &workspace));
  bool fits = machines_.push({start, false});
  facts_.of(start).machine = 0;
  for (int64_t m = 0; m < machines_.count() && fits; ++m) {
    if (!grammar_.spend(1024)) return grammar_.status();  // tables of a machine are cleared
    fits = starts_.push(static_cast<int32_t>(tables_.states.count()));
    OCELLUS_TRY(nfa.build(machines_[m].expression));
    OCELLUS_TRY(determinizer.run(nfa, machines_[m].is_item, &tables_));
  }
  fits = fits && starts_.push(static_cast<int32_t>(tables_.states.count()));
  if (!fits) return OCELLUS_FAIL(Code::kFull, "the grammar has too many rules for the memory of a constraint");
  link_calls();
  return {};
}

/// Numbers of symbols become first states.
void Compiler::link_calls() {
  for (AutomatonCall& call : tables_.calls) {
    const CallSymbol& symbol = symbols_[call.callee];
    call.callee = starts_[symbol.machine];
    call.least = symbol.least;
    call.most = symbol.most;
  }
}

/// Pushes the machines that may be called before a byte was read; false if there is no room.
bool Compiler::visit_first_calls(int32_t machine, GrowingArray<int32_t>* states, GrowingArray<int32_t>* path) {
  states->clear();
  bool fits = states->push(starts_[machine]);
  for (int64_t i = 0; i < states->count() && fits; ++i) {
    const AutomatonState& state = tables_.states[(*states)[i]];
    for (int32_t c = 0; c < state.call_count && fits; ++c) {
      const AutomatonCall& call = tables_.calls[state.first_call + c];
      const int32_t* const after = std::upper_bound(starts_.begin(), starts_.end(), call.callee);
      fits = path->push(static_cast<int32_t>(after - starts_.begin()) - 1) && grammar_.spend(8 + states->count());
      if (tables_.states[call.callee].accepts == 0) continue;
      if (std::find(states->begin(), states->end(), call.returns) == states->end())
        fits = fits && states->push(call.returns);
    }
  }
  return fits;
}

/// Walks the machines depth first. `path` holds machines to enter, and those entered as -1 - machine.
Status Compiler::visit(int32_t machine, GrowingArray<int32_t>* path) {
  path->clear();
  bool fits = path->push(machine);
  while (!path->empty() && fits) {
    const int32_t top = path->pop();
    if (top < 0) {
      visits_[-1 - top] = Visit::kDone;
      continue;
    }
    if (visits_[top] == Visit::kDone) continue;
    if (visits_[top] == Visit::kOpen)
      return OCELLUS_FAIL(Code::kUnsupported,
                          "the grammar is left-recursive: a rule may begin with itself; put something before it, or "
                          "write a repetition");
    visits_[top] = Visit::kOpen;
    fits = path->push(-1 - top) && visit_first_calls(top, &reached_, path);
  }
  OCELLUS_TRY(grammar_.status());
  return fits ? Status() : OCELLUS_FAIL(Code::kFull, "the grammar has too many rules for the memory of a constraint");
}

Status Compiler::refuse_left_recursion() {
  const int64_t first = memory_.cols / 4 * 3 / 16 * 16;
  reached_ = GrowingArray<int32_t>(memory_.data + first, memory_.cols - first);
  bool fits = visits_.resize(machines_.count(), Visit::kNone);
  for (int32_t m = 0; fits && m < machines_.count(); ++m) OCELLUS_TRY(visit(m, &path_));
  return fits ? Status() : OCELLUS_FAIL(Code::kFull, "the grammar has too many rules for the memory of a constraint");
}

int64_t Compiler::settle(Automaton* out) {
  std::byte* end = memory_.data;
  const auto move = [&](auto& array, auto** data, int64_t* count) {
    const int64_t bytes = array.count() * static_cast<int64_t>(sizeof array[0]);
    std::memmove(end, array.data(), static_cast<size_t>(bytes));
    *data = reinterpret_cast<std::remove_reference_t<decltype(array[0])>*>(end);
    *count = array.count();
    end += round_up(bytes, 16);
  };
  move(tables_.states, &out->states, &out->state_count);
  move(tables_.edges, &out->edges, &out->edge_count);
  move(tables_.calls, &out->calls, &out->call_count);
  out->start = 0;
  return end - memory_.data;
}

}  // namespace

Status compile_grammar(const Grammar& grammar, Expression start, const ByteSet& spelled, HostView<std::byte> memory,
                       Automaton* out, int64_t* used_bytes) {
  Compiler compiler(grammar, memory);
  OCELLUS_TRY(compiler.run(start, spelled));
  OCELLUS_TRY(compiler.refuse_left_recursion());
  *used_bytes = compiler.settle(out);
  return {};
}

}  // namespace ocellus

#include "runtime/branches/constrain/constraint_memory.h"

#include <algorithm>

#include "runtime/branches/constrain/grammar/gbnf.h"
#include "runtime/branches/constrain/grammar/grammar_facts.h"
#include "runtime/branches/constrain/grammar/regex.h"
#include "runtime/branches/constrain/grammar/schema.h"
#include "runtime/branches/constrain/grammar/text_after.h"

namespace ocellus {
namespace {

/// Reads the text into the grammar; `workspace` is free again afterwards.
Status read_constraint(const ocellus_constraint_params& params, const TokenTrie& tokens, HostView<std::byte> workspace,
                       Grammar* grammar, Expression* out) {
  const std::string_view text(params.text, static_cast<size_t>(params.text_bytes));
  switch (params.kind) {
    case OCELLUS_CONSTRAINT_SCHEMA:
      return read_schema(text, {.free_space = params.free_space != 0}, workspace, grammar, out);
    case OCELLUS_CONSTRAINT_GRAMMAR: return read_gbnf(text, &tokens, grammar, out);
    case OCELLUS_CONSTRAINT_REGEX: return read_regex(text, {.workspace = workspace}, grammar, out);
  }
  return OCELLUS_FAIL(Code::kBadArgument, "the kind of a constraint must be between %d and %d, not %d",
                      OCELLUS_CONSTRAINT_SCHEMA, OCELLUS_CONSTRAINT_REGEX, params.kind);
}

/// Allows a space before what `start` matches, unless that may begin with one itself.
Status allow_a_space(HostView<std::byte> memory, Grammar* grammar, Expression* start, bool* allowed) {
  Workspace workspace(memory);
  GrammarFacts facts;
  OCELLUS_TRY(facts.find(*grammar, *start, ByteSet().add_range(0, 255), &workspace));
  *allowed = !facts.of(*start).may_begin_with_space;
  if (*allowed) *start = grammar->sequence(grammar->optional(grammar->text(" ")), *start);
  return {};
}

}  // namespace

Status ConstraintMemory::lay_out(const Tokenizer& tokenizer, const ConstraintShape& shape, int64_t sessions,
                                 RowSink& sink, bool spaced) {
  constexpr Lifetime kLife = Lifetime::kSession;
  spaced_ = spaced;
  OCELLUS_TRY(slots_.resize(shape.count));
  OCELLUS_TRY(tokens_.build(tokenizer, sink));
  OCELLUS_TRY(matcher_.lay_out(sink));
  OCELLUS_TRY(take_rows(sink, "constraints", kLife, Phase::kNone, shape.count, shape.bytes(), &tables_));
  OCELLUS_TRY(take_rows(sink, "constrained answers", kLife, Phase::kNone, 1, sessions, &states_));
  return take_rows(sink, "forced text", kLife, Phase::kNone, 1, Tokenizer::workspace_bytes(kMostForcedBytes),
                   &encoding_);
}

/// The grammar lies in the last third of the memory while it is compiled; masks are kept there afterwards.
Status ConstraintMemory::compile(const ocellus_constraint_params& params, const StopSignal* stop,
                                 HostView<std::byte> memory, ConstraintSlot* out) const {
  StepMeter meter("compiling the constraint", kMostCompileSteps, stop);
  const int64_t first = memory.cols / 3 * 2 / 16 * 16;
  Grammar grammar({memory.data + first, 1, memory.cols - first}, &meter);
  Expression start = kNoExpression;
  OCELLUS_TRY(read_constraint(params, tokens_, {memory.data, 1, first}, &grammar, &start));
  OCELLUS_TRY(grammar.status());
  out->allows_a_space = false;
  if (spaced_) OCELLUS_TRY(allow_a_space({memory.data, 1, first}, &grammar, &start, &out->allows_a_space));
  OCELLUS_TRY(grammar.status());
  return out->constraint.compile(grammar, start, tokens_, memory);
}

Status ConstraintMemory::open(const ocellus_constraint_params& params, const StopSignal* stop, ConstraintSlot** out) {
  ConstraintSlot* const slot =
      std::find_if(slots_.begin(), slots_.end(), [](const ConstraintSlot& s) { return s.load_serial() == 0; });
  if (slot == slots_.end())
    return OCELLUS_FAIL(Code::kFull, "all %lld planned constraints are in use: close one, or plan more",
                        static_cast<long long>(slots_.size()));
  slot->store_serial(ConstraintSlot::kCompiling);
  slot->owner = this;
  const Status status = compile(params, stop, {tables_.row(slot - slots_.begin()), 1, tables_.cols}, slot);
  slot->store_serial(status.ok() ? ++last_serial_ : 0);
  if (status.ok()) *out = slot;
  return status;
}

bool ConstraintMemory::has(const ConstraintSlot* slot) const {
  return slot >= slots_.begin() && slot < slots_.end() && slot->is_open();
}

/// Spells the bytes as the tokenizer does, without the last tokens, which might be spelled otherwise with what follows:
/// one, or two where the text is longer than what was looked at. None is left out if the answer ends there.
Status ConstraintMemory::find_forced() {
  if (forced_.is_known) return {};
  forced_ = {.is_known = true};
  char text[kMostForcedBytes];
  bool ends = false;
  const int32_t bytes = matcher_.find_forced(text, kMostForcedBytes, &ends);
  if (bytes == 0) return {};
  int64_t count = 0;
  const std::string_view forced(text, static_cast<size_t>(bytes));
  TokenId ids[kMostForcedBytes + 1];
  OCELLUS_TRY(tokens_.tokenizer().encode(forced, false, encoding_.data, encoding_.cols, ids, kMostForcedBytes + 1,
                                         &count, true));
  const int64_t open = ends ? 0 : bytes == kMostForcedBytes ? 2 : 1;
  size_t spelled = 0;
  for (int64_t t = 0; t < count - open && t < kMostForcedTokens; ++t) {
    const std::string_view piece = tokens_.tokenizer().piece(ids[t], false);
    if (piece.empty() || text_after(forced, spelled).substr(0, piece.size()) != piece) break;
    spelled += piece.size();
    forced_.ids[forced_.count++] = ids[t];
  }
  return {};
}

}  // namespace ocellus

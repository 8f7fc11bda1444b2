#include "runtime/branches/constrain/constrain.h"

#include <new>

#include "platform/round_up.h"
#include "runtime/branches/all.h"
#include "runtime/engine/check_limits.h"

namespace ocellus {
namespace {

Status check(const ocellus_limits& limits) {
  OCELLUS_TRY(check_range("the number of constraints", limits.max_constraints, 0, 256));
  if (limits.constraint_bytes == 0) return {};
  return check_range("the bytes of a constraint", limits.constraint_bytes, 1 << 16, 1 << 30);
}

Status resolve(const ocellus_limits& limits, EngineShape* shape) {
  shape->has_masks = limits.max_constraints > 0;
  return {};
}

Status lay_out(const Model& model, const EngineShape& shape, RowSink& sink, EngineMemory* memory) {
  std::unique_ptr<AnswerConstraints> made(new (std::nothrow) AnswerConstraints);
  if (made == nullptr) return OCELLUS_FAIL(Code::kIo, "the system has no memory for constraints");
  OCELLUS_TRY(made->lay_out(model, shape, memory->tokenizer, sink));
  memory->branches.forms = std::move(made);
  return {};
}

}  // namespace

const Branch kConstrainBranch = {
    .facts = {.name = "constrain", .is_built = 1}, .check = check, .resolve = resolve, .lay_out = lay_out};

Status AnswerConstraints::lay_out(const Model& model, const EngineShape& shape, const Tokenizer& tokenizer,
                                  RowSink& sink) {
  if (!shape.has_masks) return {};
  const ConstraintShape planned = {shape.limits.max_constraints,
                                   round_up(shape.limits.constraint_bytes, kRowAlignment)};
  OCELLUS_TRY(memory_.lay_out(tokenizer, planned, shape.sessions, sink, answers_with_space(model.layout())));
  answers_.reset(new (std::nothrow) AnswerConstraint[static_cast<size_t>(shape.sessions)]);
  return answers_ != nullptr ? Status() : OCELLUS_FAIL(Code::kIo, "the system has no memory for constrained answers");
}

Status AnswerConstraints::begin(const ocellus_constraint* constraint, int32_t session, bool goes_on,
                                const StopSignal* stop, AnswerForm** out) {
  auto* const slot = reinterpret_cast<ConstraintSlot*>(const_cast<ocellus_constraint*>(constraint));
  if (!memory_.has(slot))
    return OCELLUS_FAIL(Code::kBadArgument, "the constraint belongs to another engine, or was destroyed");
  *out = &answers_[session];
  return answers_[session].begin(slot, &memory_.state(session), goes_on, stop);
}

}  // namespace ocellus

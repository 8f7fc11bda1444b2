// The branch constrain: answers of a given form, by constraints that an engine compiles and holds.
#pragma once

#include "runtime/branches/constrain/answer_constraint.h"
#include "runtime/engine/engine.h"

namespace ocellus {

class AnswerConstraints final : public AnswerForms {
 public:
  Status lay_out(const Model& model, const EngineShape& shape, const Tokenizer& tokenizer, RowSink& sink);
  Status begin(const ocellus_constraint* constraint, int32_t session, bool goes_on, const StopSignal* stop,
               AnswerForm** out) override;
  ConstraintMemory& memory() { return memory_; }

 private:
  ConstraintMemory memory_;
  std::unique_ptr<AnswerConstraint[]> answers_;  // one per session
};

inline ConstraintMemory& constraints_of(Engine& engine) {
  return static_cast<AnswerConstraints&>(*engine.memory().branches.forms).memory();
}

}  // namespace ocellus

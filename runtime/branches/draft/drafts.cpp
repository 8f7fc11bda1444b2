// The branch draft: steps that try what answers may continue with.
#include <algorithm>
#include <new>

#include "kernels/linear/matmul.h"
#include "runtime/branches/all.h"
#include "runtime/branches/draft/draft.h"
#include "runtime/engine/check_limits.h"
#include "runtime/engine/engine_memory.h"
#include "runtime/forward/decode_step.h"

namespace ocellus {
namespace {

/// The drafts of all sessions.
class Drafts final : public Guessing {
 public:
  Status lay_out(const EngineShape& shape, RowSink& sink) {
    constexpr Lifetime kLife = Lifetime::kSession;
    const int64_t tokens = shape.session.text_tokens;
    OCELLUS_TRY(take_rows(sink, "last answers", kLife, Phase::kNone, shape.sessions, tokens, &said_));
    OCELLUS_TRY(take_rows(sink, "conversations", kLife, Phase::kNone, shape.sessions, tokens, &history_));
    drafts_.reset(new (std::nothrow) Draft[static_cast<size_t>(shape.sessions)]);
    return drafts_ != nullptr ? Status() : OCELLUS_FAIL(Code::kIo, "the system has no memory for drafts");
  }
  Guesser* open(int32_t session) override {
    drafts_[session] = Draft({said_.row(session), history_.row(session), said_.cols}, &times_);
    return &drafts_[session];
  }
  void note_step(int64_t rows, float ms) override { times_.note(rows, ms); }

 private:
  HostView<TokenId> said_, history_;  // [sessions, text tokens] see DraftMemory
  StepTimes times_;
  std::unique_ptr<Draft[]> drafts_;  // one per session
};

Status check(const ocellus_limits& limits) {
  return check_range("the rows of a draft", limits.draft_rows, 0, kMostDraftRows);
}

/// Rows of a draft must have the bits that they have alone. The CPU's few ones have them; on a GPU that takes batch
/// invariance.
Status resolve(const ocellus_limits& limits, EngineShape* s) {
  if (limits.draft_rows < 2) return {};
  if (s->device.is_cuda()) OCELLUS_TRY(make_batch_invariant(", which drafts (draft_rows) need on a GPU", s));
  s->guessing_rows = s->device.is_cuda() ? kMostGuessingRows : kMostRowsAlike;
  s->answer_rows = std::min<int64_t>(limits.draft_rows, s->guessing_rows);
  const int64_t rows = std::min(s->sessions * s->answer_rows, s->guessing_rows);
  s->step_rows = std::max(s->step_rows, recorded_rows(rows, s->guessing_rows, s->device));
  return {};
}

Status lay_out(const Model&, const EngineShape& shape, RowSink& sink, EngineMemory* memory) {
  if (shape.guessing_rows == 0) return {};
  std::unique_ptr<Drafts> made(new (std::nothrow) Drafts);
  if (made == nullptr) return OCELLUS_FAIL(Code::kIo, "the system has no memory for drafts");
  OCELLUS_TRY(made->lay_out(shape, sink));
  memory->branches.guessing = std::move(made);
  return {};
}

}  // namespace

const Branch kDraftBranch = {
    .facts = {.name = "draft", .is_built = 1}, .check = check, .resolve = resolve, .lay_out = lay_out};

}  // namespace ocellus

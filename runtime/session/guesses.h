// Guesses: the part of a session's draft that one step reads, in rows after those of the sessions. On the CPU only,
// where the host has the rows of a step and knows a step's tokens before it starts the next.
#pragma once

#include "runtime/forward/decode_step.h"
#include "runtime/vocabulary/tokenizer.h"

namespace ocellus {

struct Guesses {
  int32_t count = 0;
  int32_t first_row = 0;  // row of the first one

  /// Fills their rows: each is what the session's own, `row`, would be after the tokens before it were sampled. Their
  /// results are those of the same step. `tokens`: one for each row of the step.
  void place(int32_t row, const TokenId* tokens, const StepScratch& scratch, Queue& queue) const;
};

}  // namespace ocellus

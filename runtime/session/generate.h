// Answers: generation and scoring, one token at a time.
#pragma once

#include <cstdint>

#include "platform/status.h"
#include "runtime/ocellus.h"
#include "runtime/vocabulary/tokenizer.h"

namespace ocellus {

class Session;

/// Tokens that a session is to say, and where their log-probabilities go; either may be null.
struct ForcedAnswer {
  const TokenId* tokens = nullptr;
  int32_t count = 0;
  float* log_probabilities = nullptr;
  double* total = nullptr;  // the sum is added here, without
  int32_t unscored = 0;     // the first ones: marks that the runtime writes
};

/// Continues as if the model had generated these tokens; see ocellus_session_score.
Status score(Session& session, const ForcedAnswer& answer, ocellus_generate_stats* stats);

/// See ocellus_session_score_choices.
Status score_choices(Session& session, ocellus_choice* choices, int32_t count);

/// Decodes for several sessions together; see ocellus_batch_generate.
Status generate(Session* const* sessions, const ocellus_generate_params* params, ocellus_generate_stats* stats,
                int32_t count);

}  // namespace ocellus

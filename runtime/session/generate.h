// Answers, one token at a time.
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

/// Decodes for several sessions together; see ocellus_batch_generate.
Status generate(Session* const* sessions, const ocellus_generate_params* params, ocellus_generate_stats* stats,
                int32_t count);

}  // namespace ocellus

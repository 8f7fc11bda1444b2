#include "runtime/session/generate_params.h"

#include "kernels/sampling/top_tokens.h"
#include "runtime/forward/sampler.h"

namespace ocellus {

static_assert(kMostLogitBiases == OCELLUS_MOST_LOGIT_BIASES && kMostTopTokens == OCELLUS_MOST_TOP_LOGPROBS);

SamplerParams sampler_params(const ocellus_generate_params& p) {
  return {.temperature = p.temperature,
          .top_k = p.top_k,
          .top_p = p.top_p,
          .min_p = p.min_p,
          .typical_p = p.typical_p,
          .top_n_sigma = p.top_n_sigma,
          .seed = p.seed,
          .top_tokens = p.on_token != nullptr ? p.top_logprobs : -1,
          .penalties = {.repetition = p.repetition_penalty,
                        .frequency = p.frequency_penalty,
                        .presence = p.presence_penalty,
                        .dry_multiplier = p.dry_multiplier,
                        .dry_base = p.dry_base,
                        .dry_length = p.dry_length}};
}

Status check_generate_params(const EngineShape& shape, int64_t vocabulary, const ocellus_generate_params& p) {
  if (p.struct_bytes != sizeof p)
    return OCELLUS_FAIL(Code::kBadArgument, "the parameters were not set up by ocellus_generate_params_init");
  if (p.max_tokens < 0) return OCELLUS_FAIL(Code::kBadArgument, "max_tokens must be 0 or more, not %d", p.max_tokens);
  if (p.max_thought_tokens < -1)
    return OCELLUS_FAIL(Code::kBadArgument, "max_thought_tokens must be -1 or more, not %d", p.max_thought_tokens);
  if (p.draft < OCELLUS_DRAFT_AUTO || p.draft > OCELLUS_DRAFT_LOOKUP)
    return OCELLUS_FAIL(Code::kBadArgument, "draft must be between %d and %d, not %d", OCELLUS_DRAFT_AUTO,
                        OCELLUS_DRAFT_LOOKUP, p.draft);
  if (p.slice_tokens < 0)
    return OCELLUS_FAIL(Code::kBadArgument, "slice_tokens must be 0 or more, not %d", p.slice_tokens);
  if (p.constraint != nullptr && p.ignore_end != 0)
    return OCELLUS_FAIL(Code::kBadArgument, "a constrained answer ends where it is complete: give no ignore_end");
  if (p.on_token != nullptr && shape.top_logprobs == 0)
    return OCELLUS_FAIL(Code::kBadArgument, "log-probabilities of tokens were not planned: plan max_top_logprobs");
  if (p.top_logprobs < 0 || p.top_logprobs > shape.top_logprobs)
    return OCELLUS_FAIL(Code::kBadArgument, "top_logprobs must be between 0 and the planned %d, not %d",
                        shape.top_logprobs, p.top_logprobs);
  LogitBiases biases;
  OCELLUS_TRY(set_logit_biases(p.logit_bias, p.logit_bias_count, vocabulary, &biases));
  return check_sampler_params(sampler_params(p));
}

ocellus_stop stop_for(Status status) {
  switch (status.code()) {
    case Code::kCancelled: return OCELLUS_STOP_CANCELLED;
    case Code::kDeadline: return OCELLUS_STOP_DEADLINE;
    case Code::kFull: return OCELLUS_STOP_FULL;
    default: return OCELLUS_STOP_FAILED;
  }
}

}  // namespace ocellus

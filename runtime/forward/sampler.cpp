#include "runtime/forward/sampler.h"

#include <cmath>

namespace ocellus {

Status check_sampler_params(const SamplerParams& p) {
  if (!(p.temperature >= 0) || !std::isfinite(p.temperature))
    return OCELLUS_FAIL(Code::kBadArgument, "the temperature must be 0 or more");
  if (p.top_k < 0) return OCELLUS_FAIL(Code::kBadArgument, "top-k must be 0 or more, not %d", p.top_k);
  if (!(p.top_p > 0 && p.top_p <= 1)) return OCELLUS_FAIL(Code::kBadArgument, "top-p must lie in (0, 1]");
  if (!(p.min_p >= 0 && p.min_p <= 1)) return OCELLUS_FAIL(Code::kBadArgument, "min-p must lie in [0, 1]");
  if (!(p.repetition_penalty > 0) || !std::isfinite(p.repetition_penalty))
    return OCELLUS_FAIL(Code::kBadArgument, "the repetition penalty must be positive");
  return {};
}

}  // namespace ocellus

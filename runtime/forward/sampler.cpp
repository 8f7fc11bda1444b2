#include "runtime/forward/sampler.h"

#include <algorithm>
#include <cmath>

namespace ocellus {
namespace {

Status check_penalties(const Penalties& p) {
  if (!(p.repetition > 0) || !std::isfinite(p.repetition))
    return OCELLUS_FAIL(Code::kBadArgument, "the repetition penalty must be positive");
  if (!std::isfinite(p.frequency)) return OCELLUS_FAIL(Code::kBadArgument, "the frequency penalty must be a number");
  if (!std::isfinite(p.presence)) return OCELLUS_FAIL(Code::kBadArgument, "the presence penalty must be a number");
  if (!(p.dry_multiplier >= 0) || !std::isfinite(p.dry_multiplier))
    return OCELLUS_FAIL(Code::kBadArgument, "DRY's multiplier must be 0 or more");
  if (!(p.dry_base >= 1) || !std::isfinite(p.dry_base))
    return OCELLUS_FAIL(Code::kBadArgument, "DRY's base must be 1 or more");
  if (p.dry_length < 1) return OCELLUS_FAIL(Code::kBadArgument, "DRY's length must be 1 or more, not %d", p.dry_length);
  return {};
}

}  // namespace

Status check_sampler_params(const SamplerParams& p) {
  if (!(p.temperature >= 0) || !std::isfinite(p.temperature))
    return OCELLUS_FAIL(Code::kBadArgument, "the temperature must be 0 or more");
  if (p.top_k < 0) return OCELLUS_FAIL(Code::kBadArgument, "top-k must be 0 or more, not %d", p.top_k);
  if (!(p.top_p > 0 && p.top_p <= 1)) return OCELLUS_FAIL(Code::kBadArgument, "top-p must lie in (0, 1]");
  if (!(p.min_p >= 0 && p.min_p <= 1)) return OCELLUS_FAIL(Code::kBadArgument, "min-p must lie in [0, 1]");
  if (!(p.typical_p > 0 && p.typical_p <= 1)) return OCELLUS_FAIL(Code::kBadArgument, "typical-p must lie in (0, 1]");
  if (!(p.top_n_sigma >= 0) || !std::isfinite(p.top_n_sigma))
    return OCELLUS_FAIL(Code::kBadArgument, "top-n-sigma must be 0 or more");
  return check_penalties(p.penalties);
}

Status set_logit_biases(const ocellus_logit_bias* biases, int32_t count, int64_t vocabulary, LogitBiases* out) {
  if (count < 0 || count > kMostLogitBiases)
    return OCELLUS_FAIL(Code::kBadArgument, "between 0 and %d logits can have a bias, not %d", kMostLogitBiases, count);
  if (count > 0 && biases == nullptr)
    return OCELLUS_FAIL(Code::kBadArgument, "the biases of %d logits are missing", count);
  out->count = count;
  for (int32_t i = 0; i < count; ++i) {
    const auto& [token, bias] = biases[i];
    if (token < 0 || token >= vocabulary)
      return OCELLUS_FAIL(Code::kBadArgument, "the bias of token %d: the vocabulary has %lld tokens", token,
                          static_cast<long long>(vocabulary));
    if (!std::isfinite(bias)) return OCELLUS_FAIL(Code::kBadArgument, "the bias of token %d must be a number", token);
    if (std::find(out->tokens, out->tokens + i, token) != out->tokens + i)
      return OCELLUS_FAIL(Code::kBadArgument, "token %d has two biases", token);
    out->tokens[i] = token;
    out->values[i] = bias;
  }
  return {};
}

}  // namespace ocellus

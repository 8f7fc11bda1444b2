// Checks of sampling parameters; the sampling itself is the op kernels/sampling/sample.h.
#pragma once

#include "kernels/base/step_row.h"
#include "platform/status.h"
#include "runtime/ocellus.h"

namespace ocellus {

/// kBadArgument names the value that is out of range.
Status check_sampler_params(const SamplerParams& params);

/// kBadArgument names the bias that is too many, not a number, or of a token that is unknown or has one.
Status set_logit_biases(const ocellus_logit_bias* biases, int32_t count, int64_t vocabulary, LogitBiases* out);

}  // namespace ocellus

// Checks of sampling parameters; the sampling itself is the op kernels/sampling/sample.h.
#pragma once

#include "kernels/base/step_row.h"
#include "platform/status.h"

namespace ocellus {

/// kBadArgument names the value that is out of range.
Status check_sampler_params(const SamplerParams& params);

}  // namespace ocellus

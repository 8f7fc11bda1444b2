// Parameters of a call of generate(): checked, and as the sampler takes them.
#pragma once

#include "kernels/base/step_row.h"
#include "runtime/engine/engine_shape.h"
#include "runtime/ocellus.h"

namespace ocellus {

SamplerParams sampler_params(const ocellus_generate_params& params);

/// kBadArgument names the field that is out of range or was not planned.
Status check_generate_params(const EngineShape& shape, int64_t vocabulary, const ocellus_generate_params& params);

/// Returns how an answer stops that failed or was stopped.
ocellus_stop stop_for(Status status);

}  // namespace ocellus

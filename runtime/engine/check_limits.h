// Checks of ocellus_limits, before anything is planned.
#pragma once

#include "runtime/models/model.h"

namespace ocellus {

/// kBadArgument names the limit that is out of range or does not go with another.
Status check_limits(const Model& model, const ocellus_limits& limits);

/// Pictures of a session, frames of clips or groups of them included.
int32_t planned_images(const Model& model, const ocellus_limits& limits);

}  // namespace ocellus

// Checks of ocellus_limits, before anything is planned.
#pragma once

#include "runtime/models/model.h"

namespace ocellus {

inline constexpr int32_t kMaxTextTokens = 1 << 24;

/// kBadArgument, `name` in its sentence, for a value that is not in [least, most].
Status check_range(const char* name, int64_t value, int64_t least, int64_t most);

/// kBadArgument names the limit that is out of range or does not go with another.
Status check_limits(const Model& model, const ocellus_limits& limits);

/// Pictures of a session, frames of clips or groups of them included.
int32_t planned_images(const Model& model, const ocellus_limits& limits);

}  // namespace ocellus

// The work of a plan: operations of its pictures and prompt, for bounds of speed. Bytes are in the plan and the model.
#pragma once

#include "runtime/models/model.h"

namespace ocellus {

/// Counts the operations of matrix products and attention that no computation can do without; see ocellus_work.
Status plan_work(const Model& model, const ocellus_limits& limits, ocellus_work* out);

}  // namespace ocellus

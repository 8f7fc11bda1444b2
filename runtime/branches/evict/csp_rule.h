// CSP: ranks text and pictures by the attention of their own modality and of the other.
#pragma once

#include "runtime/policy/row_rule.h"

namespace ocellus {

const RowRule& csp_rule();

}  // namespace ocellus

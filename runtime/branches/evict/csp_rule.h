// CSP: ranks text and pictures by the attention of their own modality and of the other.
#pragma once

#include "runtime/policy/eviction_rule.h"

namespace ocellus {

const EvictionRule& csp_rule();

}  // namespace ocellus

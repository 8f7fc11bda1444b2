// CSP: text and pictures are ranked by what their own modality attends and by what the other does.
#pragma once

#include "runtime/policy/eviction_rule.h"

namespace ocellus {

const EvictionRule& csp_rule();

}  // namespace ocellus

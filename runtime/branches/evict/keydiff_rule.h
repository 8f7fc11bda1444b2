// KeyDiff: keeps the rows whose keys are unlike the others.
#pragma once

#include "runtime/policy/eviction_rule.h"

namespace ocellus {

const EvictionRule& keydiff_rule();

}  // namespace ocellus

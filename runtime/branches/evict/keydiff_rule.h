// KeyDiff: keeps the rows whose keys are unlike the others.
#pragma once

#include "runtime/policy/row_rule.h"

namespace ocellus {

const RowRule& keydiff_rule();

}  // namespace ocellus

// VisionZip: most rows that are kept are those with the most attention in the vision tower; the others take in, each
// what is like it, all rows that are left (Yang et al., 2024).
#pragma once

#include "runtime/branches/reduce/reduction_rule.h"

namespace ocellus {

Status choose_visionzip(const RowsToChoose& picture, const MethodValues& options, Queue& queue);

}  // namespace ocellus

// The memory plan as a table for users.
#pragma once

#include <string>

#include "runtime/ocellus.h"

namespace ocellus::app {

// Small buffers: one line per lifetime and phase, or a line each. Sums include them either way.
enum class SmallRows { kFolded, kShown };

// Formats the buffers by lifetime and phase, each with its sum; then the total that is allocated.
std::string plan_table(const ocellus_plan& plan, SmallRows small_rows);

}  // namespace ocellus::app

// The memory plan as a table for people.
#pragma once

#include <string>

#include "runtime/ocellus.h"

namespace ocellus::app {

// Whether buffers too small to matter are one line per lifetime and phase. Sums count them either way.
enum class SmallRows { kFolded, kShown };

// Buffers below the lifetime and phase they belong to, each with its sum; then what is allocated.
std::string plan_table(const ocellus_plan& plan, SmallRows small_rows);

}  // namespace ocellus::app

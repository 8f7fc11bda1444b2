// VisionZip: most rows that are kept are those with the most attention in the vision tower; the others take in, each
// what is like it, all rows that are left (Yang et al., 2024).
#pragma once

#include "runtime/policy/reduction_rule.h"

namespace ocellus {

/// 10 of 64 rows, as published.
inline constexpr ocellus_method_option kVisionZipOptions[] = {
    {"contextual", nullptr, 0, 1, 0, "0.15625", "Share of the rows that take in others."}};

Status choose_visionzip(const RowsToChoose& picture, const MethodValues& options, Queue& queue);

}  // namespace ocellus

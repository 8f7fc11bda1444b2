// Limits that save work where pictures and answers repeat: drafts, and views that are not encoded again.
#pragma once

#include "apps/setup/setup.h"

namespace ocellus::app {

// Sets the limits of constraints, draft_rows, kept_views and view_change, after all others: as asked
// for or, for a camera's stream, where they are tried and fit the budget.
void set_repeat_limits(const Model& model, const CommonOptions& options, ocellus_limits* limits);

}  // namespace ocellus::app

// The memory plan as a picture.
#pragma once

#include <string>
#include <vector>

#include "apps/plot/chart.h"
#include "runtime/ocellus.h"

namespace ocellus::app {

// `remarks`: sentences about the plan. `is_bounded`: a budget was given; then there is a line at it and, where the plan
// does not fit, what each change of its advice would need.
Plot plan_plot(const std::string& model, const std::vector<std::string>& remarks, const ocellus_plan& plan,
               bool is_bounded);

}  // namespace ocellus::app

// The file of --plot.
#pragma once

#include <string>

#include "apps/plot/chart.h"

namespace ocellus::app {

// Both do nothing if the path is empty: no plot was asked for.

// Throws a Failure unless the name ends in .svg and the file can be made, or is a plot that can be replaced.
void check_plot(const std::string& path);
// Throws a Failure if the file cannot be written.
void write_plot(const std::string& path, const Plot& plot);

}  // namespace ocellus::app

// Charts for reports: bars or a line with titles, axes and units, one below another in an SVG file.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace ocellus::app {

struct Bar {
  std::string label = {};           // at its left
  std::vector<double> values = {};  // parts from left to right, one for each series
  std::string text = {};            // at its right: the number as the command prints it
  double deviation = 0;             // half the length of the whisker at its end; 0: none
};

struct ChartPoint {
  double x, y;
  std::string text;  // words shown below the mouse
};

// Bars, or a line through points.
struct Chart {
  std::string title = {};
  std::string axis = {};                 // title of the axis below, with its unit
  std::vector<std::string> series = {};  // names of the parts of bars; empty: bars have one part
  std::vector<Bar> bars = {};
  double begin = 0;                 // value at which bars begin
  std::optional<double> end = {};   // end of the axis below; nullopt: as far as the bars
  std::optional<double> mark = {};  // a value that bars are compared with
  std::string mark_text = {};
  std::string side_axis = {};  // title of the axis at the left, with its unit; for points only
  std::vector<ChartPoint> points = {};
};

struct Plot {
  std::string title = {};
  std::vector<std::string> remarks = {};  // sentences below the title
  std::vector<Chart> charts = {};
};

// Returns an SVG file that stands alone: no scripts, fonts or addresses. A browser shows it in the scheme of its
// system. Texts may hold anything. Values that are not finite have no bar, and no point.
std::string draw_svg(const Plot& plot);

// True for the beginning of a file that draw_svg() made.
bool is_plot(const std::string& file);

}  // namespace ocellus::app

// Charts of values that no sound run has: plot_test.py has the others.
#include "apps/plot/chart.h"

#include <doctest/doctest.h>

#include <limits>
#include <string>

namespace ocellus::app {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++found;
  return found;
}

bool has_odd_number(const std::string& svg) {
  return svg.find("\"nan") != std::string::npos || svg.find("\"inf") != std::string::npos ||
         svg.find("\"-") != std::string::npos;
}

TEST_CASE("a chart of negative, zero and infinite values stays inside its picture") {
  Chart chart{.title = "growth", .axis = "MiB"};
  chart.bars = {{.label = "less", .values = {-3}, .text = "-3.00", .deviation = 2},
                {.label = "none", .values = {0}, .text = "0.00"},
                {.label = "all", .values = {kInfinite}, .text = "inf", .deviation = kInfinite},
                {.label = "no number", .values = {kNone}, .text = "nan"}};
  const std::string svg = draw_svg({.title = "t", .charts = {chart}});
  CHECK(is_plot(svg));
  CHECK_FALSE(has_odd_number(svg));
  CHECK(count(svg, "class=\"f0\"") == 2);
  CHECK(count(svg, "class=\"whisker\"") == 3);
  CHECK(count(svg, ">inf</text>") == 1);
  CHECK(count(svg, ">0</text>") == 1);
}

TEST_CASE("points that are not finite are left out, and equal ones have a scale") {
  Chart chart{.title = "flat", .axis = "tau", .side_axis = "accuracy"};
  chart.points = {{0, 0.5, "p"}, {1, 0.5, "q"}, {2, kNone, "r"}, {kInfinite, 1, "s"}};
  const std::string svg = draw_svg({.title = "t", .charts = {chart}});
  CHECK_FALSE(has_odd_number(svg));
  CHECK(count(svg, "<circle") == 2);
  chart.points = {{kNone, kNone, "none"}};
  CHECK_FALSE(has_odd_number(draw_svg({.title = "none", .charts = {chart, {}}})));
}

TEST_CASE("only what begins as a plot does is one") {
  CHECK_FALSE(is_plot(""));
  CHECK_FALSE(is_plot("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"10\">"));
}

}  // namespace
}  // namespace ocellus::app

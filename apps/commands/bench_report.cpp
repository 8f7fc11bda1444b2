#include "apps/commands/bench_report.h"

#include <algorithm>
#include <cmath>

#include "apps/base/printable_text.h"
#include "apps/base/sizes.h"
#include "apps/base/table.h"
#include "apps/setup/answer.h"

namespace ocellus::app {

double BenchRow::mean() const {
  double sum = 0;
  for (const double sample : samples) sum += sample;
  return samples.empty() ? 0 : sum / static_cast<double>(samples.size());
}

double BenchRow::deviation() const {
  if (samples.size() < 2) return 0;
  const double center = mean();
  double squares = 0;
  for (const double sample : samples) squares += (sample - center) * (sample - center);
  return std::sqrt(squares / static_cast<double>(samples.size() - 1));
}

void BenchReport::add(const std::string& test, const std::string& unit, double sample) {
  auto row = std::find_if(rows_.begin(), rows_.end(), [&](const BenchRow& known) { return known.test == test; });
  if (row == rows_.end()) row = rows_.insert(row, {test, unit, {}});
  row->samples.push_back(sample);
}

void BenchReport::append(const BenchReport& other) {
  for (const BenchRow& row : other.rows_) {
    for (const double sample : row.samples) add(row.test, row.unit, sample);
  }
}

std::string BenchRow::number() const {
  return format_number(mean(), 2) + (samples.size() > 1 ? " ± " + format_number(deviation(), 2) : "");
}

std::string BenchReport::heading() const {
  std::string text;
  for (const auto& [name, value] : heading_.items()) {
    text += (text.empty() ? "" : ", ") + name + " " + (value.is_string() ? value.get<std::string>() : value.dump());
  }
  return text;
}

std::string BenchReport::markdown() const {
  Table table("lrl");
  table.add_row({"test", "mean ± deviation", "unit"});
  for (const BenchRow& row : rows_) {
    table.add_row({row.test, row.number(), row.unit});
  }
  return make_printable(heading(), Lines::kOne) + "\n\n" + table.markdown();
}

std::string BenchReport::csv() const {
  std::string text = "test,unit,mean,deviation,samples\n";
  for (const BenchRow& row : rows_) {
    text += "\"" + row.test + "\"," + row.unit + "," + format_number(row.mean(), 6) + "," +
            format_number(row.deviation(), 6) + "," + std::to_string(row.samples.size()) + "\n";
  }
  return text;
}

std::string BenchReport::json() const {
  nlohmann::ordered_json object = {{"command", "bench"}};
  object.update(heading_);
  object["rows"] = nlohmann::ordered_json::array();
  for (const BenchRow& row : rows_) {
    object["rows"].push_back({{"test", row.test},
                              {"unit", row.unit},
                              {"mean", row.mean()},
                              {"deviation", row.deviation()},
                              {"samples", row.samples}});
  }
  return json_line(object);
}

Plot BenchReport::plot() const {
  Plot plot = {.title = "Speed and memory of " + heading_["model"].get<std::string>(), .remarks = {heading()}};
  for (const BenchRow& row : rows_) {
    const auto has_unit = [&row](const Chart& chart) { return chart.axis == row.unit; };
    auto chart = std::find_if(plot.charts.begin(), plot.charts.end(), has_unit);
    if (chart == plot.charts.end())
      chart = plot.charts.insert(chart, {.title = "Rows in " + row.unit, .axis = row.unit});
    chart->bars.push_back({row.test, {row.mean()}, row.number(), row.deviation()});
  }
  return plot;
}

}  // namespace ocellus::app

#include "apps/commands/plan_plot.h"

#include <algorithm>
#include <string_view>

#include "apps/base/limit_flags.h"
#include "apps/base/sizes.h"

namespace ocellus::app {
namespace {

constexpr char kMemory[] = "memory in MiB";
constexpr size_t kLargest = 8;

double mebibytes(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

Bar make_bar(const std::string& label, int64_t bytes) {
  return {.label = label, .values = {mebibytes(bytes)}, .text = format_bytes(bytes)};
}

void mark_budget(const ocellus_plan& plan, bool is_bounded, Chart* chart) {
  if (!is_bounded) return;
  chart->mark = mebibytes(plan.budget_bytes);
  chart->mark_text = "budget: " + format_bytes(plan.budget_bytes);
}

Chart chart_of_total(const ocellus_plan& plan, bool is_bounded) {
  Chart chart = {.title = "All memory, by lifetime", .axis = kMemory};
  Bar bar = {.label = "the plan", .text = format_bytes(plan.total_bytes)};
  const auto add = [&](const std::string& name, int64_t bytes) {
    if (bytes == 0) return;
    chart.series.push_back(name + ": " + format_bytes(bytes));
    bar.values.push_back(mebibytes(bytes));
  };
  add("weights", plan.weights_bytes);
  add("session", plan.session_bytes);
  add("scratch", plan.scratch_bytes);
  add("staging", plan.staging_bytes);
  chart.bars.push_back(std::move(bar));
  mark_budget(plan, is_bounded, &chart);
  return chart;
}

Chart chart_of_phases(const ocellus_plan& plan) {
  Chart chart = {.title = "Scratch, by phase: one after another uses the same bytes, so the largest counts",
                 .axis = kMemory};
  std::vector<std::pair<std::string, int64_t>> phases;
  for (int32_t i = 0; i < plan.row_count; ++i) {
    const ocellus_plan_row& row = plan.rows[i];
    if (std::string_view(row.lifetime) != "scratch") continue;
    auto phase = std::find_if(phases.begin(), phases.end(), [&row](const auto& one) { return one.first == row.phase; });
    if (phase == phases.end()) phase = phases.insert(phase, {row.phase, 0});
    phase->second += row.bytes;
  }
  for (const auto& [name, bytes] : phases) chart.bars.push_back(make_bar(name, bytes));
  return chart;
}

Chart chart_of_largest(const ocellus_plan& plan) {
  std::vector<const ocellus_plan_row*> rows;
  for (int32_t i = 0; i < plan.row_count; ++i) rows.push_back(&plan.rows[i]);
  std::stable_sort(rows.begin(), rows.end(), [](const auto* a, const auto* b) { return a->bytes > b->bytes; });
  rows.resize(std::min(rows.size(), kLargest));
  Chart chart = {.title = "The largest buffers", .axis = kMemory};
  for (const ocellus_plan_row* row : rows) {
    const std::string phase = row->phase;
    chart.bars.push_back(make_bar(row->name + (" (" + (phase == "-" ? row->lifetime : phase) + ")"), row->bytes));
  }
  return chart;
}

Chart chart_of_advice(const ocellus_plan& plan) {
  Chart chart = {.title = "Each of these alone would make it fit", .axis = "memory that it needs, in MiB"};
  for (int32_t i = 0; i < plan.advice_count; ++i) {
    if (plan.advice[i].total_bytes > 0)
      chart.bars.push_back(make_bar(name_flags(plan.advice[i].text), plan.advice[i].total_bytes));
  }
  chart.bars.push_back(make_bar("--budget " + std::to_string(plan.total_bytes), plan.total_bytes));
  mark_budget(plan, /*is_bounded=*/true, &chart);
  return chart;
}

}  // namespace

Plot plan_plot(const std::string& model, const std::vector<std::string>& remarks, const ocellus_plan& plan,
               bool is_bounded) {
  Plot plot = {.title = "Memory plan of " + model, .remarks = remarks};
  plot.charts.push_back(chart_of_total(plan, is_bounded));
  if (is_bounded && !plan.fits) {
    for (int32_t i = 0; i < plan.advice_count; ++i)
      if (plan.advice[i].total_bytes == 0) plot.remarks.push_back(name_flags(plan.advice[i].text));
    plot.charts.push_back(chart_of_advice(plan));
  }
  plot.charts.push_back(chart_of_phases(plan));
  plot.charts.push_back(chart_of_largest(plan));
  return plot;
}

}  // namespace ocellus::app

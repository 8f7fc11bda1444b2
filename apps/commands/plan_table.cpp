#include "apps/commands/plan_table.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "apps/base/sizes.h"
#include "apps/base/table.h"

namespace ocellus::app {
namespace {

constexpr int64_t kSmallRowBytes = 32 * 1024;  // smaller ones would show as 0.0 MiB
constexpr char kIndent[] = "  ";

// Buffers of one lifetime and phase.
struct Group {
  std::string name;
  std::vector<const ocellus_plan_row*> rows;
  int64_t bytes = 0;
};

std::vector<Group> group_rows(const ocellus_plan& plan) {
  std::vector<Group> groups;
  for (int32_t i = 0; i < plan.row_count; ++i) {
    const ocellus_plan_row& row = plan.rows[i];
    const std::string phase = row.phase;
    const std::string name = row.lifetime + (phase == "-" ? "" : ", " + phase);
    auto group = std::find_if(groups.begin(), groups.end(), [&name](const Group& known) { return known.name == name; });
    if (group == groups.end()) group = groups.insert(group, {.name = name, .rows = {}});
    group->rows.push_back(&row);
    group->bytes += row.bytes;
  }
  return groups;
}

// Formats a shape, "512 x 384": without zeros, and without ones at both ends.
std::string shape_text(const int64_t (&shape)[4]) {
  int first = 0, end = 4;
  while (end > 1 && shape[end - 1] <= 1) --end;
  while (first < end - 1 && shape[first] <= 1) ++first;
  std::string text = std::to_string(shape[first]);
  for (int i = first + 1; i < end; ++i) text += " x " + std::to_string(shape[i]);
  return text;
}

void add_sum(Table* table, const std::string& name, int64_t bytes) {
  table->add_row({name, "", "", std::to_string(bytes), format_mib(bytes)});
}

void add_group(Table* table, const Group& group, PlanRows rows) {
  add_sum(table, group.name, group.bytes);
  const auto is_small = [](const ocellus_plan_row* row) { return row->bytes < kSmallRowBytes; };
  const int64_t small_count = std::count_if(group.rows.begin(), group.rows.end(), is_small);
  const bool folds = rows == PlanRows::kFolded && small_count > 1;
  int64_t folded_bytes = 0;
  for (const ocellus_plan_row* row : group.rows) {
    if (folds && is_small(row)) {
      folded_bytes += row->bytes;
    } else {
      table->add_row({kIndent + std::string(row->name), row->dtype, shape_text(row->shape), std::to_string(row->bytes),
                      format_mib(row->bytes)});
    }
  }
  if (folds) add_sum(table, kIndent + std::to_string(small_count) + " under 32 KiB each", folded_bytes);
}

}  // namespace

std::string plan_table(const ocellus_plan& plan, PlanRows rows) {
  Table table("lllrr");
  if (rows == PlanRows::kSums) {
    table.add_row({"the plan", "", "", "bytes", "MiB"});
  } else {
    table.add_row({"buffer", "dtype", "shape", "bytes", "MiB"});
    table.add_rule();
    for (const Group& group : group_rows(plan)) add_group(&table, group, rows);
  }
  table.add_rule();
  add_sum(&table, "weights", plan.weights_bytes);
  add_sum(&table, "session", plan.session_bytes);
  add_sum(&table, "scratch, largest phase", plan.scratch_bytes);
  add_sum(&table, "staging", plan.staging_bytes);
  add_sum(&table, "total", plan.total_bytes);
  return table.plain_text();
}

}  // namespace ocellus::app

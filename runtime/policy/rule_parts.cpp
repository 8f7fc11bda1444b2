#include "runtime/policy/rule_parts.h"

namespace ocellus {

SelectSlotsArgs selection(const LayerToCompress& a, SelectStage stage) {
  const CachePolicy& policy = a.scratch.policy;
  const CompressPlan& plan = a.plan;
  SelectSlotsArgs args;
  args.scores = a.scores();
  args.rows.count = plan.facts.rows;
  args.rows.is_visual = a.scratch.is_visual.device.data;
  args.rows.visual_count = plan.facts.visual_rows;
  args.window = plan.survivors.window;
  args.ncar.layer = a.layer.index;
  args.ncar.state = a.scratch.ncar.data;
  args.kept.text = a.scratch.kept_text;
  args.kept.visual = a.scratch.kept_visual;
  args.scratch = a.scratch.selection;
  const int64_t counts_at = int64_t{a.layer.index} * a.config.kv_heads;
  args.kept.text_counts = plan.text_counts + counts_at;
  args.kept.visual_counts = plan.visual_counts + counts_at;
  args.stage = stage;
  args.budget = plan.survivors.budget;
  args.kept.is_split = policy.packs();
  args.kept.pack_window = policy.pack_window;
  args.kept.pack_text = policy.packs_text();
  args.kept.first_text = policy.first_f16_rows();
  if (policy.packs_oldest()) args.kept.last_text = policy.f16_tail(plan.survivors.slots());
  return args;
}

SelectSlotsArgs selection_of_image(const LayerToCompress& a) {
  SelectSlotsArgs args = selection(a, SelectStage::kDecoupled);
  args.visual_quota = a.plan.image_budget;
  args.budget = a.plan.image_budget + a.plan.text_before_window;
  args.kept.is_split = true;
  args.kept.pack_window = true;
  args.kept.pack_text = false;
  args.kept.text_counts = a.scratch.counts.row(0);
  args.kept.visual_counts = a.scratch.counts.row(1);
  return args;
}

ScoreRowsArgs scoring(const LayerToCompress& a) {
  ScoreRowsArgs args;
  args.query = a.queries;
  args.query_heads = a.config.query_heads;
  args.rows = a.rows;
  args.row_count = a.plan.facts.rows;
  args.past = {.runs = a.past,
               .count = a.past_count,
               .layer = a.layer,
               .rope = a.config.rope,
               .calibration = a.scratch.policy.calibration};
  args.observers.readers = a.readers;
  args.scores = a.scores();
  args.scratch = a.scratch.rule;
  return args;
}

MergeKvArgs merging(const LayerToCompress& a, const SelectSlotsArgs& selected, int64_t first, int64_t end) {
  MergeKvArgs args;
  args.rows = a.rows;
  args.first = first;
  args.end = end;
  args.kept_text = selected.kept.text;
  args.kept_visual = selected.kept.visual;
  args.text_counts = selected.kept.text_counts;
  args.visual_counts = selected.kept.is_split ? selected.kept.visual_counts : nullptr;
  args.most_kept = a.plan.survivors.slots();
  return args;
}

DeviceView<int32_t> row_numbers(const LayerToCompress& a) {
  return {reinterpret_cast<int32_t*>(a.scratch.rule.data), a.config.kv_heads, a.plan.facts.rows};
}

int64_t rule_matrix_bytes(const TextConfig& c, int64_t rows) {
  return aligned_bytes(c.kv_heads * rows * int64_t{sizeof(float)});
}

DeviceView<float> rule_matrix(const LayerToCompress& a, int64_t index) {
  const int64_t rows = a.plan.facts.rows;
  std::byte* const data = a.scratch.rule.data + index * rule_matrix_bytes(a.config, rows);
  return {reinterpret_cast<float*>(data), a.config.kv_heads, rows};
}

DeviceView<std::byte> behind_matrices(const LayerToCompress& a, int64_t count) {
  const int64_t bytes = count * rule_matrix_bytes(a.config, a.plan.facts.rows);
  return {a.scratch.rule.data + bytes, 1, a.scratch.rule.cols - bytes};
}

}  // namespace ocellus

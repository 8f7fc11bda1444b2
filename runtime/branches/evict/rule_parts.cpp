#include "runtime/branches/evict/rule_parts.h"

#include "kernels/cache/note_slots.h"

namespace ocellus {

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

void note_kept(const LayerToCompress& a, Queue& queue) {
  const CompressScratch& s = a.scratch;
  NoteSlotsArgs args{.ledger = a.plan.ledger,
                     .runs = s.pages.device.data,
                     .run_count = a.plan.page_count,
                     .rows = {.indices = s.kept_text.data,
                              .index_stride = s.kept_text.cols,
                              .others = s.policy.packs() ? s.kept_visual.data : nullptr,
                              .other_counts = a.plan.visual_counts},
                     .first_position = a.plan.first_position,
                     .stay = static_cast<int32_t>(s.policy.facts.answers.stay(a.plan.survivors.slots())),
                     .first_layer = a.layer.index,
                     .kv_heads = a.config.kv_heads};
  if (args.ledger.sums.data != nullptr) args.scores = s.scores;
  if (args.run_count > 0) note_slots(args, queue);
  if (a.plan.noted_blocks == 0) return;
  args.runs += a.plan.page_count;
  args.run_count = a.plan.noted_blocks;
  args.rows.indices = s.kept_visual.data;
  args.rows.others = s.kept_text.data;
  args.rows.other_counts = a.plan.text_counts;
  args.live_counts = a.plan.block_counts;
  note_slots(args, queue);
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

#include "runtime/forward/prefill_drop.h"

#include "kernels/cache/score_rows.h"
#include "runtime/forward/prefill.h"

namespace ocellus {
namespace {

/// The layer has left the queries of its last block, or those of all rows.
ActivationView last_query(const LayerPass& pass, int64_t rows) {
  const PrefillScratch& s = pass.scratch;
  if (const ActivationView& all = s.compress.all_queries; all.data != nullptr) return all.slice_rows(rows - 1, 1);
  return s.layer.view(pass.config(), pass.layer, s.block_rows).query.slice_rows((rows - 1) % s.block_rows, 1);
}

}  // namespace

Status DropScratch::lay_out(const TextConfig& c, int32_t full_layers, int64_t rows, const DeviceTraits& device,
                            RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kScratch;
  constexpr Phase kPhase = kPrefillPhase;
  if (full_layers == 0) return {};
  most_rows = rows;
  OCELLUS_TRY(take_rows(sink, "rows of the first layers", kLife, kPhase, (full_layers + 1) * rows, c.width, &inputs));
  OCELLUS_TRY(attention.lay_out(sink, "attention of the last row", kLife, kPhase, c.kv_heads, rows));
  return take_rows(sink, "scoring of the last row", kLife, kPhase, 1,
                   score_rows_scratch_bytes(1, rows, c.query_heads, c.head_dim, device), &scoring);
}

void find_last_attention(const LayerPass& pass, int64_t rows, Queue& q) {
  const PrefillScratch& s = pass.scratch;
  const TextConfig& c = pass.config();
  const StagedRows<float>& out = s.drop.attention;
  ScoreRowsArgs args;
  args.query = last_query(pass, rows);
  args.query_heads = c.query_heads;
  args.rows = pass.own_rows();
  args.row_count = rows;
  args.past = {.runs = s.past.device.data,
               .count = static_cast<int32_t>(pass.plan.past_tiles),
               .layer = s.kv.layer(pass.cache_layer()),
               .rope = c.rope,
               .calibration = s.compress.policy.calibration};
  args.scores = out.device;
  args.scratch = s.drop.scoring;
  score_rows(args, q);
  q.copy(out.host.data, out.device.data, out.host.rows * out.host.cols * int64_t{sizeof(float)});
}

}  // namespace ocellus

// FastV (Chen et al. 2024): those rows of a prompt's pictures are dropped to which its last row attends least, over all
// heads, in the last of the first layers. In the published code these layers keep all rows in the cache; here pictures
// have slots for their share in every layer. Where rows of a picture see each other, each is ranked by itself.
#include <algorithm>
#include <cmath>

#include "kernels/cache/score_rows.h"
#include "kernels/rows/compact_rows.h"
#include "kernels/rows/convert_rows.h"
#include "runtime/branches/reduce/picture_reduction.h"

namespace ocellus {
namespace {

/// Sums the heads in the first one's line. Ranking needs a total order.
void sum_heads(const HostView<float>& attention, int64_t rows) {
  for (int64_t row = 0; row < rows; ++row) {
    float& sum = attention.data[row];
    for (int64_t head = 1; head < attention.rows; ++head) sum += attention.row(head)[row];
    if (std::isnan(sum)) sum = 0;
  }
}

/// Lists the rows that stay, ascending; returns their number. `apart`: each picture is ranked by itself.
int64_t choose_rows(const PromptChunk& chunk, const Reduction& reduction, bool apart, const float* attention,
                    int32_t* kept) {
  int64_t count = 0, first = 0;       // rows that are listed, and those before the rows that are ranked
  int64_t of_picture = 0, share = 0;  // rows of the last picture, and what all but that one may keep
  const auto keep_best = [&] {
    const int64_t best = first + share;
    std::nth_element(kept + first, kept + best, kept + count, [&](int32_t a, int32_t b) {
      return attention[a] != attention[b] ? attention[a] > attention[b] : a < b;
    });
    first = count = best;
    share = 0;
  };
  const auto end_picture = [&] {
    share += reduction.kept_of(of_picture);
    of_picture = 0;
    if (apart) keep_best();
  };
  for (int64_t row = 0; row < chunk.row_count; ++row)
    if (chunk.is_text(row)) kept[count++] = static_cast<int32_t>(row);
  first = count;
  int32_t picture = -1;
  for (int64_t p = 0; p < chunk.piece_count; ++p) {
    const Piece& piece = chunk.pieces.data[p];
    if (piece.kind != RowKind::kImage) continue;
    if (piece.image_ordinal != picture) end_picture();
    picture = piece.image_ordinal;
    of_picture += piece.row_count;
    for (int64_t i = 0; i < piece.row_count; ++i) kept[count++] = static_cast<int32_t>(piece.first_row + i);
  }
  end_picture();
  keep_best();
  std::sort(kept, kept + count);
  return count;
}

/// The layer has left the queries of its last block, or those of all rows.
ActivationView last_query(const LayerPass& pass, int64_t rows) {
  const PrefillScratch& s = pass.scratch;
  if (const ActivationView& all = s.compress.all_queries; all.data != nullptr) return all.slice_rows(rows - 1, 1);
  const int64_t block_rows = s.limits.block_rows;
  return s.layer.view(pass.config(), pass.layer, block_rows).query.slice_rows((rows - 1) % block_rows, 1);
}

}  // namespace

Status PictureReduction::lay_out(const TextConfig& c, int64_t rows, const DeviceTraits& device, RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kScratch;
  constexpr Phase kPhase = kPrefillPhase;
  drop_.most_rows = rows;
  OCELLUS_TRY(take_rows(sink, "rows of the first layers", kLife, kPhase, (reduction_.full_layers() + 1) * rows, c.width,
                        &drop_.inputs));
  OCELLUS_TRY(drop_.attention.lay_out(sink, "attention of the last row", kLife, kPhase, c.kv_heads, rows));
  return take_rows(sink, "scoring of the last row", kLife, kPhase, 1,
                   score_rows_scratch_bytes(1, rows, c.query_heads, c.head_dim, device), &drop_.scoring);
}

/// Finds the attention of the last of `rows` rows in a layer that has just been run, and copies it to the host.
void PictureReduction::find_last_attention(const LayerPass& pass, int64_t rows, Queue& q) const {
  const PrefillScratch& s = pass.scratch;
  const TextConfig& c = pass.config();
  const StagedRows<float>& out = drop_.attention;
  ScoreRowsArgs args;
  args.query = last_query(pass, rows);
  args.query_heads = c.query_heads;
  args.rows = pass.own_rows();
  args.row_count = rows;
  args.past = {.runs = s.past.runs.device.data,
               .count = static_cast<int32_t>(pass.plan.past_tiles),
               .layer = s.limits.kv.layer(pass.cache_layer()),
               .rope = c.rope,
               .calibration = s.compress.policy.calibration};
  args.scores = out.device;
  args.scratch = drop_.scoring;
  score_rows(args, q);
  q.copy(out.host.data, out.device.data, out.host.rows * out.host.cols * int64_t{sizeof(float)});
}

/// Runs all rows through the first layers, keeps what each of them reads, and finds the last row's attention.
Status PictureReduction::look(Engine& engine, PrefillPlan plan, const PrefillScratch& s, const StopSignal* stop) {
  Queue& queue = engine.queue();
  const PromptChunk& chunk = engine.memory().chunk;
  const int64_t rows = chunk.row_count;
  const int32_t layers = reduction_.full_layers();
  const DeviceView<float> hidden = chunk.hidden.slice_rows(0, rows);
  for (int32_t layer = 0; layer < layers; ++layer) {
    const TraceRange range(engine.trace(), "full layer");
    convert_rows({.from = hidden, .to = drop_.rows_before(layer, rows)}, queue);
    plan.first_layer = layer;
    plan.most_layers = layer + 1;
    OCELLUS_TRY(engine.run_prefill(rows, plan, s, stop));
  }
  convert_rows({.from = hidden, .to = drop_.rows_before(layers, rows)}, queue);
  find_last_attention({engine.text(), plan, s, layers - 1}, rows, queue);
  return queue.finish();
}

Status PictureReduction::after_first_layers(Engine& engine, int64_t first_position, SessionCache& cache,
                                            const PrefillScratch& s, const StopSignal* stop, int32_t* known_layers) {
  PromptChunk& chunk = engine.memory().chunk;
  Queue& queue = engine.queue();
  *known_layers = 0;
  if (reduction_.full_layers() == 0 || chunk.text_count == chunk.row_count) return {};
  const TraceRange range(engine.trace(), "drop rows");
  cache.move_sinks(first_position);
  const PrefillPlan plan = plan_look(chunk, first_position, cache, s, queue);
  chunk.embed_text(engine.text(), queue);
  OCELLUS_TRY(look(engine, plan, s, stop));
  const HostView<float>& attention = drop_.attention.host;
  sum_heads(attention, chunk.row_count);
  const StagedRows<int32_t>& picks = memory_.picks;
  const bool apart = engine.text().config.architecture->has_mutual_pictures;
  const int64_t kept = choose_rows(chunk, reduction_, apart, attention.data, picks.host.data);
  queue.upload(picks, kept);
  compact_rows({.rows = chunk.inputs, .kept = picks.device.data, .count = kept}, queue);  // DeepStack joins them later
  chunk.keep_rows(picks.host.data, kept);
  chunk.deal_rows(engine.shape().pictures.rows);
  *known_layers = reduction_.full_layers();
  return queue.status();
}

/// The rows that stay are listed where after_first_layers() has left them.
void PictureReduction::write_rows(const LayerPass& pass, DeviceView<float> hidden, Queue& queue) {
  const int32_t known = pass.plan.known_layers;
  if (known == 0 || pass.layer > known) return;
  convert_rows(
      {.from = drop_.rows_before(pass.layer, drop_.most_rows), .to = hidden, .sources = memory_.picks.device.data},
      queue);
}

}  // namespace ocellus

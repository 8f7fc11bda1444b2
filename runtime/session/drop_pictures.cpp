// FastV (Chen et al. 2024): those rows of a prompt's pictures are dropped to which its last row attends least, over all
// heads, in the last of the first layers. In the published code these layers keep all rows in the cache; here pictures
// have slots for their share in every layer. Where rows of a picture see each other, each is ranked by itself.
#include "runtime/session/drop_pictures.h"

#include <algorithm>
#include <cmath>

#include "kernels/rows/compact_rows.h"
#include "kernels/rows/convert_rows.h"
#include "runtime/engine/engine.h"

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

/// Runs all rows through the first layers, keeps what each of them reads, and finds the last row's attention.
Status look(Engine& engine, PrefillPlan plan, int32_t layers, const PrefillScratch& s, const StopSignal* stop) {
  Queue& queue = engine.queue();
  const PromptChunk& chunk = engine.memory().chunk;
  const int64_t rows = chunk.row_count;
  const DeviceView<float> hidden = chunk.hidden.slice_rows(0, rows);
  for (int32_t layer = 0; layer < layers; ++layer) {
    const TraceRange range(engine.trace(), "full layer");
    convert_rows({.from = hidden, .to = s.drop.rows_before(layer, rows)}, queue);
    plan.first_layer = layer;
    plan.most_layers = layer + 1;
    OCELLUS_TRY(engine.run_prefill(rows, plan, s, stop));
  }
  convert_rows({.from = hidden, .to = s.drop.rows_before(layers, rows)}, queue);
  find_last_attention({engine.text(), plan, s, layers - 1}, rows, queue);
  return queue.finish();
}

}  // namespace

Status drop_pictures(Engine& engine, int64_t first_position, SessionCache& cache, const PrefillScratch& s,
                     const StopSignal* stop, int32_t* full_layers) {
  const PictureShape& pictures = engine.shape().pictures;
  PromptChunk& chunk = engine.memory().chunk;
  Queue& queue = engine.queue();
  *full_layers = 0;
  if (pictures.full_layers() == 0 || chunk.text_count == chunk.row_count) return {};
  const TraceRange range(engine.trace(), "drop rows");
  cache.move_sinks(first_position);
  const PrefillPlan plan = plan_look(chunk, first_position, cache, s, queue);
  chunk.embed_text(engine.text(), queue);
  OCELLUS_TRY(look(engine, plan, pictures.full_layers(), s, stop));
  const HostView<float>& attention = s.drop.attention.host;
  sum_heads(attention, chunk.row_count);
  const StagedRows<int32_t>& picks = engine.memory().reduction.picks;
  const bool apart = engine.text().config.architecture->has_mutual_pictures;
  const int64_t kept = choose_rows(chunk, pictures.reduction, apart, attention.data, picks.host.data);
  queue.upload(picks, kept);
  compact_rows({.rows = chunk.inputs, .kept = picks.device.data, .count = kept}, queue);  // DeepStack joins them later
  chunk.keep_rows(picks.host.data, kept);
  chunk.deal_rows(pictures.rows);
  *full_layers = pictures.full_layers();
  return queue.status();
}

/// The rows that stay are listed where drop_pictures has left them.
Status run_kept_rows(Engine& engine, int64_t rows, PrefillPlan plan, const PrefillScratch& s, const StopSignal* stop) {
  const EngineMemory& memory = engine.memory();
  const int32_t last = plan.full_layers;
  if (last == 0) return engine.run_prefill(rows, plan, s, stop);
  for (int32_t layer = 0; layer <= last; ++layer) {
    convert_rows({.from = s.drop.rows_before(layer, s.drop.most_rows),
                  .to = memory.chunk.hidden.slice_rows(0, rows),
                  .sources = memory.reduction.picks.device.data},
                 engine.queue());
    plan.first_layer = layer;
    plan.most_layers = layer < last ? layer + 1 : INT32_MAX;
    OCELLUS_TRY(engine.run_prefill(rows, plan, s, stop));
  }
  return {};
}

}  // namespace ocellus

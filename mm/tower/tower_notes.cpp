#include "mm/tower/tower_notes.h"

#include "kernels/cache/score_rows.h"
#include "kernels/vision/pool_attention.h"

namespace ocellus {
namespace {

/// Rows of a view that have queries: the class row alone, or all.
int64_t asking_rows(const VisionConfig& c, int64_t rows_per_view) { return c.class_rows > 0 ? 1 : rows_per_view; }

}  // namespace

int64_t note_scratch_bytes(const VisionConfig& c, int64_t rows_per_view, int64_t block, const DeviceTraits& device) {
  return score_rows_scratch_bytes(std::min(block, asking_rows(c, rows_per_view)), rows_per_view, c.heads, c.head_dim(),
                                  device);
}

void note_attention(const PassMemory& pass, int32_t layer, int64_t first, ActivationView query,
                    const KvLayerRows& rows) {
  const VisionConfig& c = pass.config();
  const VisionScratch& s = pass.scratch();
  const ViewBatch& batch = pass.batch();
  Queue& q = pass.queue();
  if (s.notes.rows == 0 || layer != c.noted_layer()) return;
  const int64_t each = batch.rows_per_view(), tokens = batch.tokens_per_view(), asking = asking_rows(c, each);
  const DeviceView<float> scores = {s.scores.data, c.heads, each};
  for (int64_t view = 0; view < batch.views; ++view) {
    KvLayerRows of_view = rows;
    of_view.keys += view * rows.sequence_stride;
    if (first < asking)
      score_rows({.query = query.slice_rows(view * each, std::min(asking, query.rows)),
                  .query_heads = c.heads,
                  .rows = of_view,
                  .row_count = each,
                  .observers = {.see_all = true},
                  .adds = first > 0,
                  .scores = scores,
                  .scratch = s.op_scratch},
                 q);
    if (first + query.rows < pass.rows()) continue;
    pool_attention({.scores = scores,
                    .queries = asking,
                    .rows = of_view,
                    .grid = batch.grid,
                    .scale = batch.scale,
                    .lead = batch.lead,
                    .output = s.notes.slice_rows(view * tokens, tokens)},
                   q);
  }
}

}  // namespace ocellus

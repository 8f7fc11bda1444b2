// Text of a chunk in the ledger of evictions during answers.
#include <algorithm>

#include "kernels/cache/note_slots.h"
#include "runtime/forward/prefill.h"

namespace ocellus {

Status NotedText::lay_out(int64_t max_rows, RowSink& sink) {
  const int64_t pages = blocks_of(max_rows + kPageSlots - 1, kPageSlots);
  OCELLUS_TRY(runs.lay_out(sink, "runs of text", Lifetime::kScratch, kPrefillPhase, 1, pages));
  return rows.lay_out(sink, "rows of text", Lifetime::kScratch, kPrefillPhase, 1, max_rows);
}

void note_text(const PromptChunk& chunk, int64_t first_position, const SessionCache& cache, const NotedText& noted,
               Queue& queue) {
  int32_t count = 0, run_count = 0;
  for (int64_t p = 0; p < chunk.piece_count; ++p) {
    const Piece& piece = chunk.pieces.data[p];
    for (int64_t i = 0; piece.kind != RowKind::kImage && i < piece.row_count; ++i)
      noted.rows.host.data[count++] = piece.span.at(i);  // without scores a row is known by its position alone
  }
  const KvShape& shape = cache.shape();
  for (int32_t done = 0; done < count;) {
    int32_t slot = 0;
    const KvRun page = cache.text_place(cache.text_slots() + done, &slot);
    KvRun run = slice_run(page, slot, std::min(kPageSlots - slot, count - done), shape.head_dim);
    run.counted_before = done - run.first;
    noted.runs.host.data[run_count++] = run;
    done += run.slots;
  }
  queue.upload(noted.rows, count);
  queue.upload(noted.runs, run_count);
  note_slots({.ledger = cache.ledger(),
              .runs = noted.runs.device.data,
              .run_count = run_count,
              .rows = {.indices = noted.rows.device.data},
              .first_position = static_cast<int32_t>(first_position),
              .layer_count = shape.layer_count,
              .kv_heads = shape.kv_heads},
             queue);
}

}  // namespace ocellus

// Staged images among the rows of their prompt.
#include <algorithm>
#include <utility>

#include "kernels/cache/expand_kv.h"
#include "kernels/rows/store_kv.h"
#include "runtime/forward/copied_runs.h"
#include "runtime/forward/prefill.h"

namespace ocellus {
namespace {

/// Lists the runs that make up the prompt, in its order.
class JoinList {
 public:
  explicit JoinList(const PrefillScratch& s)
      : join_(s.links.join), runs_(s.links.join.runs.host, s.links.join.first_rows.host, s.kv.keys.cols) {
    const KvLayerRows rows = s.own_rows(false);
    own_.data = reinterpret_cast<std::byte*>(rows.keys);
    own_.head_stride = 2 * rows.head_stride;
    own_.value_offset = reinterpret_cast<const std::byte*>(rows.values) - reinterpret_cast<const std::byte*>(rows.keys);
    own_.capacity = own_.slots = static_cast<int32_t>(rows.capacity);
  }

  /// Adds the chunk's rows [first, first + count).
  void add_rows(int64_t first, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      join_.rows_in_prompt.data[first + i] = static_cast<int32_t>(row_ + i);
      join_.readers.host.data[row_ + i] = 1;
    }
    add(slice_run(own_, static_cast<int32_t>(first), static_cast<int32_t>(count), join_.kv.keys.cols));
  }
  void add_link(const LinkedImage& image, const LinkedRun& link) {
    std::fill_n(join_.readers.host.data + row_, link.slots, 0);
    join_.images->visit_slots(image.ordinal, link.first_slot, link.slots, image.position_shift,
                              [&](const KvRun& run) { add(run); });
  }
  int64_t count() const { return runs_.count(); }

 private:
  void add(const KvRun& run) {
    runs_.add(run, row_);
    row_ += run.slots;
  }

  const JoinScratch& join_;
  CopiedRuns runs_;
  int32_t row_ = 0;
  KvRun own_;
};

}  // namespace

Status JoinScratch::lay_out(const TextConfig& c, const PrefillLimits& limits, RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kScratch;
  constexpr Phase kPhase = kPrefillPhase;
  const int64_t rows = limits.compress.rows;
  // A stretch of computed rows lies between any two links; each is cut into pieces.
  const int64_t most_runs = 2 * limits.links.runs + 1 + blocks_of(rows, kPackedTileSlots);
  OCELLUS_TRY(runs.lay_out(sink, "joined runs", kLife, kPhase, 1, most_runs));
  OCELLUS_TRY(first_rows.lay_out(sink, "rows of joined runs", kLife, kPhase, 1, most_runs));
  OCELLUS_TRY(slots.lay_out(sink, "slots of joined rows", kLife, kPhase, 1, rows));
  OCELLUS_TRY(positions.lay_out(c.rope, rows, "positions of joined rows", sink));
  OCELLUS_TRY(readers.lay_out(sink, "readers of joined rows", kLife, kPhase, 1, rows + 1));
  OCELLUS_TRY(take_rows(sink, "rows in the prompt", kLife, kPhase, 1, limits.rows, &rows_in_prompt));
  OCELLUS_TRY(take_rows(sink, "joined angles", kLife, kPhase, rows, c.rope.rotated, &angles));
  OCELLUS_TRY(take_rows(sink, "joined keys", kLife, kPhase, c.kv_heads * rows, c.head_dim, &kv.keys));
  return take_rows(sink, "joined values", kLife, kPhase, c.kv_heads * rows, c.head_dim, &kv.values);
}

void plan_join(const PromptChunk& chunk, const PrefillScratch& s, PrefillPlan* plan, Queue& queue) {
  const JoinScratch& join = s.links.join;
  JoinList list(s);
  int64_t first = 0, count = 0;  // computed rows that are not listed yet
  chunk.visit_parts([&](const Piece&, int64_t, int64_t rows) { count += rows; },
                    [&](const LinkedRun& link) {
                      if (count > 0) list.add_rows(first, count);
                      first += std::exchange(count, 0);
                      list.add_link(chunk.linked_images.data[link.image], link);
                    });
  if (count > 0) list.add_rows(first, count);
  const int64_t rows = join.prompt->row_count;
  int32_t* const readers = join.readers.host.data;
  readers[rows] = 0;
  for (int64_t row = rows; row-- > 0;) readers[row] += readers[row + 1];
  plan->joined_runs = list.count();
  plan->compress.observers = readers[rows - plan->compress.observed];
  queue.upload(join.runs, list.count());
  queue.upload(join.first_rows, list.count());
  queue.upload(join.slots, rows);
  join.positions.upload(rows, queue);
  queue.upload(join.readers, rows + 1);
  // Queries of rows that are not computed are read, too, and must be finite.
  if (plan->compress.lists_rows) clear_rows(s.compress.last_queries.slice_rows(0, plan->compress.observed), queue);
}

void join_rows(const LayerPass& pass, Queue& q) {
  const JoinScratch& join = pass.scratch.links.join;
  const int64_t count = join.prompt->row_count;
  const KvLayerRows rows = join.kv.of(pass.config().kv_heads);
  if (pass.cache_layer() == 0) join.positions.find_angles(pass.config().rope, join.angles.slice_rows(0, count), q);
  expand_kv({.runs = join.runs.device.data,
             .run_count = static_cast<int32_t>(pass.plan.joined_runs),
             .layer = {.index = pass.cache_layer()},
             .rope = pass.config().rope,
             .out = rows,
             .first_rows = join.first_rows.device.data},
            q);
  store_kv({.rows = rows, .count = count, .slots = join.slots.device.data, .layer = pass.cache_layer()}, q);
}

void join_queries(const LayerPass& pass, int64_t first, const ActivationView& queries, Queue& q) {
  const CompressPlan& plan = pass.plan.compress;
  const ActivationView& kept = pass.scratch.compress.last_queries;
  const int32_t* const places = pass.scratch.links.join.rows_in_prompt.data + first;
  const int64_t observed_first = plan.facts.rows - plan.observed;
  for (int64_t t = 0, count = 1; t < queries.rows; t += count) {
    for (count = 1; t + count < queries.rows && places[t + count] == places[t] + count;) ++count;
    const int64_t skipped = std::clamp<int64_t>(observed_first - places[t], 0, count);
    if (skipped == count) continue;
    const ActivationView to = kept.slice_rows(places[t] + skipped - observed_first, count - skipped);
    const ActivationView from = queries.slice_rows(t + skipped, count - skipped);
    const bool together = to.stride == to.cols && from.stride == from.cols;
    const int64_t copies = together ? 1 : to.rows, each = to.rows / copies * to.cols * to.value_bytes();
    for (int64_t i = 0; i < copies; ++i) q.copy(to.slice_rows(i, 1).data, from.slice_rows(i, 1).data, each);
  }
}

}  // namespace ocellus

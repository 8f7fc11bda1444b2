// Linked images that are staged: what stays of them depends on their prompt. They are kept in f16, unpacked, until it
// is read, and joined with its rows then.
#include <algorithm>
#include <new>
#include <utility>

#include "kernels/cache/expand_kv.h"
#include "kernels/rows/store_kv.h"
#include "runtime/branches/reuse/reuse.h"
#include "runtime/engine/engine_shape.h"
#include "runtime/forward/copied_runs.h"
#include "runtime/forward/prefill.h"

namespace ocellus {
namespace {

/// Images and scratch of the prompt that has the engine's chunk.
class StagedImages final : public LinkJoin {
 public:
  Status lay_out_images(const EngineShape& shape, RowSink& sink) override;
  SessionCache& images() override { return images_; }
  void begin(const PromptChunk& chunk, int32_t first_image) override { prompt_.join(chunk, first_image); }
  const PromptChunk& stored(const PromptChunk& chunk) const override {
    return chunk.linked_image_count > 0 ? prompt_ : chunk;
  }
  Status lay_out(const TextConfig& config, const PrefillLimits& limits, RowSink& sink) override;
  const HostView<KvSlot>& slots() const override { return slots_.host; }
  const RowPositions& positions() const override { return positions_; }
  void plan(const PromptChunk& chunk, const PrefillScratch& scratch, PrefillPlan* plan, Queue& queue) override;
  JoinedLayer join_rows(const LayerPass& pass, Queue& queue) override;
  void join_queries(const LayerPass& pass, int64_t first, const ActivationView& queries, Queue& queue) override;

 private:
  friend class JoinList;

  KvPools pools_;
  SessionCache images_;
  PromptChunk prompt_;  // the chunk joined with them
  // Scratch of a prefill.
  int64_t run_count_ = 0;
  StagedRows<KvRun> runs_;            // [1, runs] of the chunk's rows and of images
  StagedRows<int32_t> first_rows_;    // [1, runs] row of the prompt where each begins
  StagedRows<KvSlot> slots_;          // [1, T] destination of each row
  RowPositions positions_;            // [T]
  StagedRows<int32_t> readers_;       // [1, T + 1] how many rows from each one on are computed
  HostView<int32_t> rows_in_prompt_;  // [1, rows of a chunk] each one's row of the prompt
  DeviceView<float> angles_;          // [T, rotated]
  LayerKv kv_;                        // [G * T, E]
};

/// Lists the runs that make up the prompt, in its order.
class JoinList {
 public:
  JoinList(StagedImages& join, const PrefillScratch& s)
      : join_(join), runs_(join.runs_.host, join.first_rows_.host, s.kv.keys.cols) {
    const KvLayerRows rows = s.own_rows(false);
    own_.data = reinterpret_cast<std::byte*>(rows.keys);
    own_.head_stride = 2 * rows.head_stride;
    own_.value_offset = reinterpret_cast<const std::byte*>(rows.values) - reinterpret_cast<const std::byte*>(rows.keys);
    own_.capacity = own_.slots = static_cast<int32_t>(rows.capacity);
  }

  /// Adds the chunk's rows [first, first + count).
  void add_rows(int64_t first, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      join_.rows_in_prompt_.data[first + i] = static_cast<int32_t>(row_ + i);
      join_.readers_.host.data[row_ + i] = 1;
    }
    add(slice_run(own_, static_cast<int32_t>(first), static_cast<int32_t>(count), join_.kv_.keys.cols));
  }
  void add_link(const LinkedImage& image, const LinkedRun& link) {
    std::fill_n(join_.readers_.host.data + row_, link.slots, 0);
    join_.images_.visit_slots(image.ordinal, link.first_slot, link.slots, image.position_shift,
                              [&](const KvRun& run) { add(run); });
  }
  int64_t count() const { return runs_.count(); }

 private:
  void add(const KvRun& run) {
    runs_.add(run, row_);
    row_ += run.slots;
  }

  StagedImages& join_;
  CopiedRuns runs_;
  int32_t row_ = 0;
  KvRun own_;
};

Status StagedImages::lay_out_images(const EngineShape& shape, RowSink& sink) {
  const int64_t count = shape.pictures.per_session;
  OCELLUS_TRY(pools_.lay_out_staged(shape.staged_kv, sink));
  OCELLUS_TRY(images_.lay_out(shape.staged_kv, {.blocks = count, .images = count, .staged = true}, sink));
  images_.attach(&pools_);
  return prompt_.lay_out_joined(shape.stored_rows, sink);
}

Status StagedImages::lay_out(const TextConfig& c, const PrefillLimits& limits, RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kScratch;
  constexpr Phase kPhase = kPrefillPhase;
  const int64_t rows = limits.compress.rows;
  // A stretch of computed rows lies between any two links; each is cut into pieces.
  const int64_t most_runs = 2 * limits.links.runs + 1 + blocks_of(rows, kPackedTileSlots);
  OCELLUS_TRY(runs_.lay_out(sink, "joined runs", kLife, kPhase, 1, most_runs));
  OCELLUS_TRY(first_rows_.lay_out(sink, "rows of joined runs", kLife, kPhase, 1, most_runs));
  OCELLUS_TRY(slots_.lay_out(sink, "slots of joined rows", kLife, kPhase, 1, rows));
  OCELLUS_TRY(positions_.lay_out(c.rope, rows, "positions of joined rows", sink));
  OCELLUS_TRY(readers_.lay_out(sink, "readers of joined rows", kLife, kPhase, 1, rows + 1));
  OCELLUS_TRY(take_rows(sink, "rows in the prompt", kLife, kPhase, 1, limits.rows, &rows_in_prompt_));
  OCELLUS_TRY(take_rows(sink, "joined angles", kLife, kPhase, rows, c.rope.rotated, &angles_));
  OCELLUS_TRY(take_rows(sink, "joined keys", kLife, kPhase, c.kv_heads * rows, c.head_dim, &kv_.keys));
  return take_rows(sink, "joined values", kLife, kPhase, c.kv_heads * rows, c.head_dim, &kv_.values);
}

void StagedImages::plan(const PromptChunk& chunk, const PrefillScratch& s, PrefillPlan* plan, Queue& queue) {
  JoinList list(*this, s);
  int64_t first = 0, count = 0;  // computed rows that are not listed yet
  chunk.visit_parts([&](const Piece&, int64_t, int64_t rows) { count += rows; },
                    [&](const LinkedRun& link) {
                      if (count > 0) list.add_rows(first, count);
                      first += std::exchange(count, 0);
                      list.add_link(chunk.linked_images.data[link.image], link);
                    });
  if (count > 0) list.add_rows(first, count);
  const int64_t rows = prompt_.row_count;
  int32_t* const readers = readers_.host.data;
  readers[rows] = 0;
  for (int64_t row = rows; row-- > 0;) readers[row] += readers[row + 1];
  run_count_ = list.count();
  plan->compress.observers = readers[rows - plan->compress.observed];
  queue.upload(runs_, run_count_);
  queue.upload(first_rows_, run_count_);
  queue.upload(slots_, rows);
  positions_.upload(rows, queue);
  queue.upload(readers_, rows + 1);
  // Queries of rows that are not computed are read, too, and must be finite.
  if (plan->compress.lists_rows) clear_rows(s.compress.last_queries.slice_rows(0, plan->compress.observed), queue);
}

JoinedLayer StagedImages::join_rows(const LayerPass& pass, Queue& q) {
  const int64_t count = prompt_.row_count;
  const KvLayerRows rows = kv_.of(pass.config().kv_heads);
  if (pass.cache_layer() == 0) positions_.find_angles(pass.config().rope, angles_.slice_rows(0, count), q);
  expand_kv({.runs = runs_.device.data,
             .run_count = static_cast<int32_t>(run_count_),
             .layer = {.index = pass.cache_layer()},
             .rope = pass.config().rope,
             .out = rows,
             .first_rows = first_rows_.device.data},
            q);
  store_kv({.rows = rows, .count = count, .slots = slots_.device.data, .layer = pass.cache_layer()}, q);
  return {.rows = rows, .angles = angles_, .readers = readers_.device.data};
}

void StagedImages::join_queries(const LayerPass& pass, int64_t first, const ActivationView& queries, Queue& q) {
  const CompressPlan& plan = pass.plan.compress;
  const ActivationView& kept = pass.scratch.compress.last_queries;
  const int32_t* const places = rows_in_prompt_.data + first;
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

}  // namespace

std::unique_ptr<LinkJoin> make_staged_images() { return std::unique_ptr<LinkJoin>(new (std::nothrow) StagedImages); }

}  // namespace ocellus

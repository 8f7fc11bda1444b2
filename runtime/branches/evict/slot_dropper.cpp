#include "runtime/branches/evict/slot_dropper.h"

#include <algorithm>
#include <new>

#include "kernels/cache/evict_step.h"
#include "kernels/cache/note_slots.h"
#include "runtime/cache/prompt_chunk.h"
#include "runtime/forward/decode_step.h"

namespace ocellus {
namespace {

class Dropper final : public SlotDropper {
 public:
  Dropper(const CachePolicy& policy, const KvPools& pools) : policy_(policy), pools_(pools) {}

  Status lay_out_prompt(int64_t rows, RowSink& sink) override {
    const int64_t pages = blocks_of(rows + kPageSlots - 1, kPageSlots);
    OCELLUS_TRY(runs_.lay_out(sink, "runs of text", Lifetime::kScratch, kPrefillPhase, 1, pages));
    return rows_.lay_out(sink, "rows of text", Lifetime::kScratch, kPrefillPhase, 1, rows);
  }
  void note_text(const PromptChunk& chunk, int64_t first_position, const SessionCache& cache, Queue& queue) override;

  Status lay_out_steps(const TextConfig& c, const StepLimits& limits, const DeviceTraits& device,
                       RowSink& sink) override {
    if (!limits.kv.has_sums) return {};
    const int64_t bytes = evict_step_scratch_bytes(limits.rows, limits.slots_per_session, limits.tiles_per_session,
                                                   c.query_heads, c.kv_heads, c.head_dim, limits.kv.format, device);
    return take_rows(sink, "attention by slot", Lifetime::kScratch, kDecodePhase, 1, bytes, &scratch_);
  }
  StepEviction begin(const SessionCache& cache) const override { return plan_eviction(policy_, cache); }
  AnswerSteps plan(const StepEviction& device, int64_t position, const AnswerRoom& room,
                   int64_t wanted) const override {
    return plan_steps(device, position, room, wanted);
  }
  void drop(const TextModel& model, const StepShape& shape, const StepScratch& scratch, const LayerRows& rows,
            DeviceView<const float> angles, int32_t layer, Queue& queue) override {
    EvictStepArgs args = args_of(model.config, shape, scratch, layer);
    args.query = rows.query;
    args.key = rows.key;
    args.angles = angles;
    evict_step(args, queue);
  }
  void settle(const TextModel& model, const StepShape& shape, const StepScratch& scratch, Queue& queue) override {
    for (int32_t layer = 0; layer < model.config.own_layers(); ++layer) {
      if (model.config.local.has(layer)) continue;
      EvictStepArgs args = args_of(model.config, shape, scratch, layer);
      args.settle_only = true;
      evict_step(args, queue);
    }
  }

 private:
  EvictStepArgs args_of(const TextConfig& c, const StepShape& shape, const StepScratch& s, int32_t layer) const {
    return {.heads = {c.query_heads, c.kv_heads, c.head_dim_of(layer)},
            .rope = c.rope,
            .tiles = {.steps = s.steps.device.data,
                      .runs = s.runs.all.device.data,
                      .per_row = s.runs.all.device.cols,
                      .most = shape.most_tiles},
            .rows = shape.rows,
            .layer = s.limits.kv.layer(c.cache_layer(layer)),
            .calibration = s.limits.calibration,
            .ledger = pools_.ledger,
            .scratch = scratch_};
  }

  CachePolicy policy_;
  const KvPools& pools_;
  StagedRows<KvRun> runs_;         // [1, pages] of a chunk's text
  StagedRows<int32_t> rows_;       // [1, T]
  DeviceView<std::byte> scratch_;  // scratch of a step
};

void Dropper::note_text(const PromptChunk& chunk, int64_t first_position, const SessionCache& cache, Queue& queue) {
  int32_t count = 0, run_count = 0;
  for (int64_t p = 0; p < chunk.piece_count; ++p) {
    const Piece& piece = chunk.pieces.data[p];
    for (int64_t i = 0; piece.kind != RowKind::kImage && i < piece.row_count; ++i)
      rows_.host.data[count++] = piece.span.at(i);  // without scores a row is known by its position alone
  }
  const KvShape& shape = cache.shape();
  for (int32_t done = 0; done < count;) {
    int32_t slot = 0;
    const KvRun page = cache.text_place(cache.text_slots() + done, &slot);
    KvRun run = slice_run(page, slot, std::min(kPageSlots - slot, count - done), shape.head_dim);
    run.counted_before = done - run.first;
    runs_.host.data[run_count++] = run;
    done += run.slots;
  }
  queue.upload(rows_, count);
  queue.upload(runs_, run_count);
  note_slots({.ledger = cache.ledger(),
              .runs = runs_.device.data,
              .run_count = run_count,
              .rows = {.indices = rows_.device.data},
              .first_position = static_cast<int32_t>(first_position),
              .layer_count = shape.layer_count,
              .kv_heads = shape.kv_heads},
             queue);
}

}  // namespace

StepEviction plan_eviction(const CachePolicy& policy, const SessionCache& cache) {
  StepEviction eviction;
  const AnswerRule& rule = policy.facts.answers;
  if (!rule.drops_slots || cache.kept().count() == 0) return eviction;
  eviction.on = 1;
  eviction.slots = static_cast<int32_t>(cache.live_slots());
  if (rule.grows)
    eviction.growth = policy.keep;
  else
    eviction.budget = eviction.slots;
  if (rule.by_attention) eviction.recent = policy.window > 0 ? policy.window : std::max(1, eviction.slots / 2);
  eviction.moves_sinks = cache.kept().has_sinks() ? 1 : 0;
  return eviction;
}

AnswerSteps plan_steps(const StepEviction& eviction, int64_t position, const AnswerRoom& room, int64_t wanted) {
  StepEviction at = eviction;
  AnswerSteps planned;
  wanted = std::min(wanted, room.positions);
  for (int64_t grown = 0; planned.steps < wanted; ++planned.steps) {
    const bool evicts = at.evicts(static_cast<int32_t>(position + planned.steps));
    const int64_t spare = planned.spare + (evicts && planned.spare < room.packed ? 1 : 0);
    if (grown + spare >= room.text) break;
    planned.slots = grown + 1;
    planned.spare = spare;
    if (evicts) continue;
    ++at.slots;
    ++grown;
  }
  return planned;
}

std::unique_ptr<SlotDropper> make_slot_dropper(const CachePolicy& policy, const KvPools& pools) {
  return std::unique_ptr<SlotDropper>(new (std::nothrow) Dropper(policy, pools));
}

}  // namespace ocellus

#include "runtime/engine/linked_memory.h"

namespace ocellus {

Status SpreadMemory::lay_out(int64_t rows, int64_t width, int64_t most_picks, RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kSession;
  OCELLUS_TRY(picks.lay_out(sink, "spread rows", kLife, Phase::kNone, 1, most_picks));
  OCELLUS_TRY(take_rows(sink, "spread distances", kLife, Phase::kNone, 1, rows, &least));
  return take_rows(sink, "mean image row", kLife, Phase::kNone, 1, width, &mean);
}

Status StagedImages::lay_out(const EngineShape& shape, RowSink& sink) {
  const int64_t count = shape.pictures.per_session;
  OCELLUS_TRY(pools.lay_out_staged(shape.staged_kv, sink));
  OCELLUS_TRY(images.lay_out(shape.staged_kv, {.blocks = count, .images = count, .staged = true}, sink));
  return prompt.lay_out_joined(shape.stored_rows, sink);
}

Status LinkedMemory::lay_out(const Model& model, const EngineShape& shape, const PromptChunk& whole, RowSink& sink) {
  OCELLUS_TRY(chunk.lay_out_alone(shape.reuse.alone_rows, whole, shape.reuse.input_rows, sink));
  if (shape.reuse.picks() == PickRule::kSpread)
    OCELLUS_TRY(spread.lay_out(shape.reuse.alone_rows, model.text().width, shape.reuse.in_place, sink));
  OCELLUS_TRY(take_activations(sink, "rows of linked images", Lifetime::kSession, Phase::kNone,
                               shape.pictures.are_stored ? ActivationType::kF16 : ActivationType::kF32,
                               shape.pictures.per_session * shape.reuse.input_rows, model.text().input_width(), &rows));
  if (shape.reuse.shares()) OCELLUS_TRY(lay_out_shared(model, shape, sink));
  return shape.reuse.staged ? staged.lay_out(shape, sink) : Status();
}

Status LinkedMemory::lay_out_shared(const Model& model, const EngineShape& shape, RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kSession;
  const int64_t count = shape.reuse.shared_images, input_rows = shape.reuse.input_rows;
  OCELLUS_TRY(take_rows(sink, "records of shared images", kLife, Phase::kNone, count, sizeof(SharedImage),
                        &shared_memory.records));
  OCELLUS_TRY(take_rows(sink, "picks of shared images", kLife, Phase::kNone, count, input_rows, &shared_memory.picks));
  return take_activations(sink, "rows of shared images", kLife, Phase::kNone, rows.type, count * input_rows,
                          model.text().input_width(), &shared_memory.rows);
}

}  // namespace ocellus

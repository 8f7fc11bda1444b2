#include "runtime/engine/engine_memory.h"

#include "runtime/engine/picture_source.h"
#include "runtime/policy/eviction_rule.h"

namespace ocellus {
namespace {

/// Takes bytes of the tensor section of a file as one row of weights.
template <bool kOnDevice>
Status take_weights(const char* name, const GgufFile& file, int64_t bytes, Place place, RowSink& sink,
                    BasicView<std::byte, kOnDevice>* out) {
  RowSpec row;
  row.name = name;
  row.lifetime = Lifetime::kWeights;
  row.place = place;
  row.dtype = format_info(usual_format(file)).name;
  row.shape[0] = row.bytes = bytes;
  std::byte* data = nullptr;
  OCELLUS_TRY(sink.take(row, &data));
  *out = {data, 1, row.bytes};
  return {};
}

/// Sizes of the lists of one session's cache.
SessionLimits session_limits(const EngineShape& shape) {
  const SessionShape& session = shape.session;
  return {.pages = session.pages,
          .blocks = session.blocks,
          .images = shape.pictures.per_session + (session.synthetic_tokens > 0 ? 1 : 0),
          .evictions = session.evictions,
          .holes = shape.reuse.blends() && !shape.reuse.staged ? shape.kv.image_slots : 0,
          .text_blocks = shape.policy.packs_oldest() ? session.text_tokens / shape.kv.block_slots : 0};
}

/// Slots of a prompt that are moved up to the others, if the policy moves any.
int32_t sink_slots(const CachePolicy& policy) {
  if (!policy.evicts_answers()) return 0;
  const AnswerRule rule = policy.evict->answers(policy.options);
  return rule.moves_sinks ? static_cast<int32_t>(rule.first_slots) : 0;
}

}  // namespace

Status EngineMemory::lay_out(const Model& model, const EngineShape& shape, RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kSession;
  const Place place = shape.device.maps_weights ? Place::kHost : Place::kDevice;
  OCELLUS_TRY(lay_out_text(model.text_file(), place, sink));
  if (shape.pictures.planned()) {
    const GgufFile& vision = model.vision_file();
    OCELLUS_TRY(take_weights("vision weights", vision, vision.data_bytes(), place, sink, &vision_weights));
  }
  OCELLUS_TRY(tokenizer.build(model.text_file(), model.vocabulary(), sink));
  for (const Branch* branch : all_branches())
    if (branch->lay_out != nullptr) OCELLUS_TRY(branch->lay_out(model, shape, sink, this));
  OCELLUS_TRY(pools.lay_out(shape.kv, sink));
  OCELLUS_TRY(caches.resize(shape.sessions));
  for (SessionCache& cache : caches) {
    OCELLUS_TRY(cache.lay_out(shape.kv, session_limits(shape), sink));
    cache.set_sinks(sink_slots(shape.policy));
  }
  OCELLUS_TRY(take_rows(sink, "recent tokens", kLife, Phase::kNone, 2 * shape.sessions, kRecentTokens, &recent_tokens));
  OCELLUS_TRY(
      take_rows(sink, "last hidden rows", kLife, Phase::kNone, shape.sessions, model.text().width, &last_hidden));
  OCELLUS_TRY(chunk.lay_out(shape.prompt_rows, model.text(), shape.link_limits(), sink));
  if (shape.reuse.links()) OCELLUS_TRY(lay_out_links(model, shape, sink));
  if (shape.pictures.planned()) OCELLUS_TRY(lay_out_pictures(model, shape, sink));
  if (shape.pictures.planned() && shape.device.is_cuda())
    OCELLUS_TRY(take_rows(sink, "picture staging", kLife, Phase::kNone, 1, PictureSource::staging_bytes(shape.pictures),
                          &picture_staging));
  if (shape.policy.watches_ncar() && shape.pictures.planned())
    OCELLUS_TRY(take_rows(sink, "ncar by session", kLife, Phase::kNone, 1, shape.sessions, &ncar));
  // Twice: a mark and a prompt that may fail keep text to return to.
  OCELLUS_TRY(
      take_rows(sink, "waiting texts", kLife, Phase::kNone, shape.sessions, 2 * shape.session.text_bytes(), &texts));
  OCELLUS_TRY(take_rows(sink, "token ids", kLife, Phase::kNone, 1, shape.session.text_tokens, &token_ids));
  return take_rows(sink, "token times", kLife, Phase::kNone, 1, shape.session.text_tokens, &token_times);
}

Status EngineMemory::lay_out_pictures(const Model& model, const EngineShape& shape, RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kSession;
  const PictureShape& pictures = shape.pictures;
  const int64_t rows = shape.prompt_rows;
  if (pictures.batch.noted)
    OCELLUS_TRY(take_rows(sink, "notes of rows", kLife, Phase::kNone, rows, model.vision().note_width(), &notes));
  OCELLUS_TRY(waiting_views.lay_out(model.vision(), pictures.batch, pictures.kept_views, notes, shape.device, sink));
  if (pictures.weighs_rows) OCELLUS_TRY(chunk.lay_out_weights(rows, sink));
  for (const Branch* branch : all_branches())
    if (branch->lay_out_pictures != nullptr) OCELLUS_TRY(branch->lay_out_pictures(model, shape, sink, this));
  return {};
}

Status EngineMemory::lay_out_text(const GgufFile& file, Place place, RowSink& sink) {
  const SectionStretch table = sink.shares_host_memory() ? SectionStretch() : host_stretch(file);
  OCELLUS_TRY(take_weights("text weights", file, file.data_bytes() - table.bytes(), place, sink, &text_weights));
  if (table.bytes() == 0) return {};
  return take_weights("table of layer inputs", file, table.bytes(), Place::kHost, sink, &input_table);
}

LoadedSection<std::byte> EngineMemory::text_section(const GgufFile& file) const {
  return {text_weights.data, input_table.data, input_table.cols > 0 ? host_stretch(file) : SectionStretch()};
}

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

Status EngineMemory::lay_out_links(const Model& model, const EngineShape& shape, RowSink& sink) {
  OCELLUS_TRY(image_chunk.lay_out_alone(shape.reuse.alone_rows, chunk, shape.reuse.input_rows, sink));
  if (shape.reuse.picks() == PickRule::kSpread)
    OCELLUS_TRY(spread.lay_out(shape.reuse.alone_rows, model.text().width, shape.reuse.in_place, sink));
  OCELLUS_TRY(take_activations(sink, "rows of linked images", Lifetime::kSession, Phase::kNone,
                               shape.pictures.are_stored ? ActivationType::kF16 : ActivationType::kF32,
                               shape.pictures.per_session * shape.reuse.input_rows, model.text().input_width(),
                               &linked_rows));
  if (shape.reuse.shares()) OCELLUS_TRY(lay_out_shared(model, shape, sink));
  if (shape.reuse.staged) OCELLUS_TRY(staged.lay_out(shape, sink));
  for (const Branch* branch : all_branches())
    if (branch->lay_out_linked != nullptr) OCELLUS_TRY(branch->lay_out_linked(model, shape, sink, this));
  return {};
}

Status EngineMemory::lay_out_shared(const Model& model, const EngineShape& shape, RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kSession;
  const int64_t count = shape.reuse.shared_images, rows = shape.reuse.input_rows;
  OCELLUS_TRY(take_rows(sink, "records of shared images", kLife, Phase::kNone, count, sizeof(SharedImage),
                        &shared_image_memory.records));
  OCELLUS_TRY(take_rows(sink, "picks of shared images", kLife, Phase::kNone, count, rows, &shared_image_memory.picks));
  return take_activations(sink, "rows of shared images", kLife, Phase::kNone, linked_rows.type, count * rows,
                          model.text().input_width(), &shared_image_memory.rows);
}

}  // namespace ocellus

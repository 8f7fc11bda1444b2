#include "runtime/engine/engine_memory.h"

#include "runtime/engine/picture_source.h"

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
          .images = session.images,
          .kept_prompts = session.kept_prompts,
          .holes = session.holes,
          .text_blocks = session.text_blocks};
}

/// Slots of a prompt that are moved up to the others, if the policy moves any.
int32_t sink_slots(const CachePolicy& policy) {
  const AnswerRule& rule = policy.facts.answers;
  return rule.moves_sinks ? static_cast<int32_t>(rule.first_slots) : 0;
}

}  // namespace

Status WeightMemory::lay_out(const Model& model, const EngineShape& shape, RowSink& sink) {
  const Place place = shape.device.maps_weights ? Place::kHost : Place::kDevice;
  const GgufFile& file = model.text_file();
  const SectionStretch table = sink.shares_host_memory() ? SectionStretch() : host_stretch(file);
  OCELLUS_TRY(take_weights("text weights", file, file.data_bytes() - table.bytes(), place, sink, &text));
  if (table.bytes() > 0)
    OCELLUS_TRY(take_weights("table of layer inputs", file, table.bytes(), Place::kHost, sink, &input_table));
  if (model.text().yarn.used())
    OCELLUS_TRY(take_rows(sink, "rope factors", Lifetime::kWeights, Phase::kNone, 1, model.text().rope.rotated / 2,
                          &rope_factors));
  if (!shape.pictures.planned()) return {};
  return take_weights("vision weights", model.vision_file(), model.vision_file().data_bytes(), place, sink, &vision);
}

LoadedSection<std::byte> WeightMemory::text_section(const GgufFile& file) const {
  return {text.data, input_table.data, input_table.cols > 0 ? host_stretch(file) : SectionStretch()};
}

Status PictureMemory::lay_out(const Model& model, const EngineShape& shape, RowSink& sink) {
  const PictureShape& pictures = shape.pictures;
  if (pictures.batch.noted)
    OCELLUS_TRY(take_rows(sink, "notes of rows", Lifetime::kSession, Phase::kNone, shape.prompt_rows,
                          model.vision().note_width(), &notes));
  return waiting.lay_out(model.vision(), pictures.batch, pictures.kept_views, notes, shape.device, sink);
}

Status EngineMemory::lay_out(const Model& model, const EngineShape& shape, RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kSession;
  OCELLUS_TRY(weights.lay_out(model, shape, sink));
  OCELLUS_TRY(tokenizer.build(model.text_file(), model.vocabulary(), sink));
  for (const Branch* branch : all_branches())
    if (branch->lay_out != nullptr) OCELLUS_TRY(branch->lay_out(model, shape, sink, this));
  OCELLUS_TRY(pools.lay_out(shape.kv, sink));
  OCELLUS_TRY(caches.resize(shape.sessions));
  for (SessionCache& cache : caches) {
    OCELLUS_TRY(cache.lay_out(shape.kv, session_limits(shape), sink));
    cache.kept().set_sinks(sink_slots(shape.policy));
  }
  OCELLUS_TRY(take_rows(sink, "recent tokens", kLife, Phase::kNone, 2 * shape.sessions, kRecentTokens, &recent_tokens));
  OCELLUS_TRY(
      take_rows(sink, "last hidden rows", kLife, Phase::kNone, shape.sessions, model.text().width, &last_hidden));
  OCELLUS_TRY(chunk.lay_out(shape.prompt_rows, model.text(), shape.links, sink));
  if (branches.linker != nullptr) OCELLUS_TRY(lay_out_links(model, shape, sink));
  if (shape.pictures.planned()) OCELLUS_TRY(lay_out_pictures(model, shape, sink));
  return lay_out_text(shape, sink);
}

Status EngineMemory::lay_out_links(const Model& model, const EngineShape& shape, RowSink& sink) {
  OCELLUS_TRY(branches.linker->lay_out(model, shape, sink, this));
  for (const Branch* branch : all_branches())
    if (branch->lay_out_linked != nullptr) OCELLUS_TRY(branch->lay_out_linked(model, shape, sink, this));
  return {};
}

Status EngineMemory::lay_out_pictures(const Model& model, const EngineShape& shape, RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kSession;
  OCELLUS_TRY(pictures.lay_out(model, shape, sink));
  if (shape.pictures.weighs_rows) OCELLUS_TRY(chunk.lay_out_weights(shape.prompt_rows, sink));
  for (const Branch* branch : all_branches())
    if (branch->lay_out_pictures != nullptr) OCELLUS_TRY(branch->lay_out_pictures(model, shape, sink, this));
  if (shape.device.is_cuda())
    OCELLUS_TRY(take_rows(sink, "picture staging", kLife, Phase::kNone, 1, PictureSource::staging_bytes(shape.pictures),
                          &pictures.staging));
  if (!shape.policy.facts.watches_ncar) return {};
  return take_rows(sink, "ncar by session", kLife, Phase::kNone, 1, shape.sessions, &ncar);
}

Status EngineMemory::lay_out_text(const EngineShape& shape, RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kSession;
  // Twice: a mark and a prompt that may fail keep text to return to.
  OCELLUS_TRY(
      take_rows(sink, "waiting texts", kLife, Phase::kNone, shape.sessions, 2 * shape.session.text_bytes(), &texts));
  OCELLUS_TRY(take_rows(sink, "token ids", kLife, Phase::kNone, 1, shape.session.text_tokens, &token_ids));
  return take_rows(sink, "token times", kLife, Phase::kNone, 1, shape.session.text_tokens, &token_times);
}

}  // namespace ocellus

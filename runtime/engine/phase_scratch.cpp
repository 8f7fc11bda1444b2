#include "runtime/engine/phase_scratch.h"

#include <algorithm>

#include "mm/views/device_preprocess.h"
#include "runtime/engine/picture_source.h"

namespace ocellus {
namespace {

PrefillLimits prefill_limits(const EngineShape& shape, const TextConfig& text) {
  const SessionShape& session = shape.session;
  PrefillLimits limits;
  limits.rows = shape.prompt_rows;
  limits.compress = {
      .rows = shape.stored_rows,
      .read_rows = shape.prompt_rows,
      .joins = shape.links.staged,
      .blocks = session.blocks,
      .pages = shape.kv.counts_blocks() ? session.pages + session.blocks : std::max(session.pages, session.blocks),
      .policy = shape.policy,
      .least_text = shape.text_competes() ? kLeastCompetingText : INT64_MAX};
  limits.rows_at_once = shape.rows_at_once;
  limits.block_rows = shape.device.block_rows(shape.device.in_blocks() ? limits.rows : limits.rows_at_once);
  limits.compress.in_blocks = limits.block_rows < shape.prompt_rows;
  limits.links = shape.links;
  limits.past_tiles = shape.tiles_per_session() + limits.links.runs;
  limits.kv = shape.kv;
  limits.mutual_pictures = shape.pictures.planned() && text.architecture->has_mutual_pictures;
  limits.weighs_rows = shape.pictures.weighs_rows;
  if (!shape.device.is_cuda()) return limits;
  // Copies of packed and shifted runs are listed in tiles of f16; at the ends of a link one more begins.
  const KvShape& staged = shape.staged_kv;
  const int64_t copied = session.blocks * blocks_of(shape.kv.block_slots, kPackedTileSlots) +
                         staged.block_count * blocks_of(staged.block_slots, kPackedTileSlots) + shape.links.holes +
                         shape.again_tiles(kPackedTileSlots);
  const bool expands = shape.policy.packs() || shape.links.images > 0;
  limits.expanded_tiles = (expands ? copied : 0) + kMaxSinkPages;
  if (expands) limits.past_tiles = session.pages + copied * (kPackedTileSlots / kTileSlots + 1) + limits.links.runs;
  return limits;
}

}  // namespace

Status PhaseScratch::take(TextScratch* out) const {
  return take_rows(sink_, "tokenizer workspace", Lifetime::kScratch, Phase{"text"}, 1,
                   Tokenizer::workspace_bytes(shape_.session.text_bytes()), &out->workspace);
}

Status PhaseScratch::take(ImageScratch* out) const {
  constexpr Lifetime kLife = Lifetime::kScratch;
  const PictureShape& pictures = shape_.pictures;
  const bool several = pictures.views > 1;
  const Phase phase = several ? kImagePhase : kPicturePhase;
  OCELLUS_TRY(several ? take(&out->vision)
                      : out->vision.lay_out_pixels(model_.vision(), pictures.batch, shape_.device, phase, sink_));
  if (!shape_.device.is_cuda())
    return out->picture.lay_out(sink_, "picture and views", kLife, phase, 1,
                                image_scratch_bytes(pictures.preprocess, pictures.limits));
  const HostView<std::byte>& staging = memory_.pictures.staging;
  out->picture = {staging, {staging.data, 1, staging.cols}};
  if (!sink_.shares_host_memory())
    OCELLUS_TRY(
        take_rows(sink_, "picture", kLife, phase, 1, PictureSource::upload_bytes(pictures), &out->picture.device));
  return take_rows(sink_, "picture and views", kLife, phase, 1,
                   device_picture_scratch_bytes(pictures.preprocess, pictures.device_limits), &out->view_scratch);
}

Status PhaseScratch::take(VisionScratch* out) const {
  return out->lay_out(model_.vision(), shape_.pictures.batch, shape_.device, sink_);
}

Status PhaseScratch::take(PrefillScratch* out) const {
  if (PictureLinker* const linker = memory_.branches.linker.get()) {
    out->links.join = linker->join();
    out->links.choice = linker->choice();
    out->links.change = linker->change();
  }
  if (memory_.branches.rows != nullptr) out->extra.source = memory_.branches.rows->source();
  out->dropper = memory_.branches.dropper.get();
  return out->lay_out(model_.text(), prefill_limits(shape_, model_.text()), shape_.device, sink_);
}

Status PhaseScratch::take(StepScratch* out) const {
  out->dropper = memory_.branches.dropper.get();
  out->packer = memory_.branches.packer.get();
  return out->lay_out(model_.text(),
                      {.rows = shape_.step_rows,
                       .tiles_per_session = shape_.tiles_per_session(),
                       .slots_per_session = shape_.slots_per_session(),
                       .has_masks = shape_.has_masks,
                       .lists_tops = shape_.top_logprobs > 0,
                       .guesses = shape_.guessing_rows > 0,
                       .batch_invariant = shape_.device.batch_invariant,
                       .kv = shape_.kv,
                       .calibration = shape_.policy.calibration},
                      shape_.device, sink_);
}

Status PhaseScratch::take_all() const {
  TextScratch text;
  OCELLUS_TRY(take(&text));
  if (shape_.pictures.planned()) {
    ImageScratch image;
    VisionScratch tower;
    OCELLUS_TRY(take(&image));
    if (shape_.pictures.views == 1) OCELLUS_TRY(take(&tower));  // else the image's scratch holds it
  }
  if (memory_.branches.rows != nullptr) OCELLUS_TRY(memory_.branches.rows->plan_scratch(sink_));
  PrefillScratch prefill;
  OCELLUS_TRY(take(&prefill));
  StepScratch step;
  return take(&step);
}

}  // namespace ocellus

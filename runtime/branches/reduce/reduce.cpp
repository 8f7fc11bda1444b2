#include <new>

#include "runtime/branches/all.h"
#include "runtime/branches/reduce/picture_reduction.h"
#include "runtime/branches/reduce/reduction_methods.h"

namespace ocellus {
namespace {

Status check(const ocellus_limits& limits) {
  Reduction reduction;
  return plan_reduction(limits, &reduction);
}

/// Checks a rule that chooses among frames of clips.
Status check_frames(const char* name, const ocellus_limits& limits, const TextConfig& text) {
  if (limits.max_clip_frames == 0)
    return OCELLUS_FAIL(Code::kBadArgument, "%s compares the frames of clips: plan some (max_clip_frames)", name);
  if (text.architecture->has_mutual_pictures)
    return OCELLUS_FAIL(Code::kUnsupported,
                        "%s cannot divide the frames of a model whose rows of a picture see each other", name);
  return {};
}

/// Checks a rule that chooses after some layers.
Status check_layers(const Reduction& reduction, const TextConfig& text) {
  const int32_t layers = reduction.full_layers();
  if (layers == 0) return {};
  if (layers >= text.layer_count || layers > text.own_layers())
    return OCELLUS_FAIL(
        Code::kBadArgument,
        "fastv drops rows after layer %d, but the model has %d, %d of them with keys of their own: name "
        "an earlier one (layer)",
        layers, text.layer_count, text.own_layers());
  if (text.local.convolve())
    return OCELLUS_FAIL(
        Code::kUnsupported,
        "fastv drops rows between layers, and convolutions of %s models are over the rows before: choose "
        "another reduction (reduce)",
        text.architecture->name);
  if (text.local.has(layers - 1))
    return OCELLUS_FAIL(Code::kUnsupported,
                        "fastv ranks rows in layer %d, which sees only the newest %d in this model: name one that sees "
                        "all, such as %d (layer)",
                        layers, text.local.window, text.local.period);
  return {};
}

Status resolve_pictures(const Model& model, const ocellus_limits& limits, EngineShape* s) {
  const TextConfig& text = model.text();
  PictureShape& p = s->pictures;
  Reduction reduction;
  OCELLUS_TRY(plan_reduction(limits, &reduction));
  if (!reduction.planned()) return {};
  const ReductionNeeds& needs = reduction.rule->needs;
  if (needs.clips) OCELLUS_TRY(check_frames(reduction.rule->method.name, limits, text));
  OCELLUS_TRY(check_layers(reduction, text));
  p.rows = reduction.kept_of(p.encoded_rows);
  p.batch.noted = needs.attention;
  p.chosen_together = needs.whole_session();
  p.frames_only = needs.clips ? "the reduction evs" : nullptr;
  p.weighs_rows =
      needs.weighs && reduction.options.number("weigh") > 0 && !s->policy.lists_rows() && text.local.window == 0;
  return {};
}

Status lay_out_pictures(const Model& model, const EngineShape& shape, RowSink& sink, EngineMemory* memory) {
  Reduction reduction;
  OCELLUS_TRY(plan_reduction(shape.limits, &reduction));
  if (!reduction.planned()) return {};
  std::unique_ptr<PictureReduction> made(new (std::nothrow) PictureReduction(reduction, model, shape));
  if (made == nullptr) return OCELLUS_FAIL(Code::kIo, "the system has no memory for a reduction");
  OCELLUS_TRY(made->lay_out_memory(shape, sink));
  memory->branches.rows = std::move(made);
  return {};
}

}  // namespace

const Branch kReduceBranch = {.facts = {.name = "reduce", .is_built = 1},
                              .methods = &kReductionTable,
                              .check = check,
                              .resolve_pictures = resolve_pictures,
                              .lay_out_pictures = lay_out_pictures};

Status ReductionMemory::lay_out(const EngineShape& shape, RowSink& sink) {
  constexpr Lifetime kLife = Lifetime::kSession;
  const int64_t rows = shape.prompt_rows;
  OCELLUS_TRY(picks.lay_out(sink, "rows that are read", kLife, Phase::kNone, 1, rows));
  if (!shape.pictures.weighs_rows) return {};
  return stands_for.lay_out(sink, "rows they stand for", kLife, Phase::kNone, 1, rows);
}

}  // namespace ocellus

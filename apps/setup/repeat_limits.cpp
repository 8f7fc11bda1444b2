#include "apps/setup/repeat_limits.h"

#include <algorithm>

namespace ocellus::app {
namespace {

bool fits(const Model& model, const ocellus_limits& limits) {
  ocellus_plan plan;
  return ocellus_plan_memory(model.get(), &limits, &plan) == OCELLUS_OK && plan.fits;
}

// On a GPU drafts cost something even where no guess is right. What a constraint forces is read as a draft is.
int32_t planned_draft_rows(const Model& model, const CommonOptions& options, ocellus_limits limits) {
  if (options.draft) return *options.draft == OCELLUS_DRAFT_OFF ? 0 : options.draft_rows;
  if ((!options.is_stream && options.constraint == nullptr) || runs_on_gpu(options)) return 0;
  limits.draft_rows = options.draft_rows;
  return fits(model, limits) ? options.draft_rows : 0;
}

int64_t views_of_picture(const Model& model, const ocellus_limits& limits) {
  if (model.facts.any_image_size != 0 || limits.max_clip_frames > 0) return 1;
  return limits.max_tiles > 0 ? std::min(limits.max_tiles + 1, model.facts.max_views) : model.facts.max_views;
}

// Enough for all pictures that are read at once, so that a question about them encodes none again, else for one.
int32_t planned_kept_views(const Model& model, const CommonOptions& options, ocellus_limits limits) {
  if (options.kept_views) return *options.kept_views;
  if (!options.is_stream && !options.keeps_views) return 0;
  const int64_t one = views_of_picture(model, limits);
  const int64_t pictures = limits.max_images + clip_pictures(model, limits.max_clip_frames);
  for (const int64_t views : {pictures * one, one}) {
    limits.kept_views = static_cast<int32_t>(std::min<int64_t>(views, OCELLUS_MOST_KEPT_VIEWS));
    if (fits(model, limits)) return limits.kept_views;
  }
  return 0;
}

}  // namespace

void set_repeat_limits(const Model& model, const CommonOptions& options, ocellus_limits* limits) {
  limits->max_constraints = options.constraint != nullptr ? 1 : options.constraints;
  if (options.constraint_bytes > 0) limits->constraint_bytes = options.constraint_bytes;
  limits->draft_rows = planned_draft_rows(model, options, *limits);
  limits->kept_views = planned_kept_views(model, options, *limits);
  limits->view_change = options.view_change;
}

}  // namespace ocellus::app

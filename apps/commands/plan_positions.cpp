#include "apps/commands/plan_positions.h"

#include <algorithm>

#include "apps/base/sizes.h"
#include "apps/commands/plan_pictures.h"

namespace ocellus::app {
namespace {

int64_t pictures_of(const Model& model, const ocellus_limits& limits) {
  return limits.max_images + clip_pictures(model, limits.max_clip_frames);
}

int64_t positions_of(const Model& model, const ocellus_limits& limits, const ocellus_plan& plan) {
  return pictures_of(model, limits) * plan.positions_per_image + limits.max_text_tokens;
}

ocellus_plan plan_without_budget(const Model& model, ocellus_limits limits) {
  limits.budget_bytes = 0;
  return plan_memory(model, limits, {});
}

class PositionAdvisor {
 public:
  PositionAdvisor(const Model& model, const ocellus_limits& limits, Positions* positions)
      : model_(model), limits_(limits), positions_(positions) {}

  // Advises the largest value of a limit, from `least` up to less than `now`, with which the model has enough
  // positions.
  void reduce(int32_t ocellus_limits::*field, int32_t now, int32_t least, const std::string& what,
              const std::string& flag) {
    ocellus_limits changed = limits_;
    int32_t enough = least - 1, most = now - 1;
    while (enough < most) {
      const int32_t middle = enough + (most - enough + 1) / 2;
      changed.*field = middle;
      if (positions_of(model_, changed, plan_without_budget(model_, changed)) <= positions_->available)
        enough = middle;
      else
        most = middle - 1;
    }
    if (enough < least) return;
    changed.*field = enough;
    positions_->advice.push_back(
        {"at most " + std::to_string(enough) + " " + what + " instead of " + std::to_string(now) + " (" + flag + ")",
         plan_without_budget(model_, changed).total_bytes});
  }

 private:
  const Model& model_;
  const ocellus_limits& limits_;
  Positions* positions_;
};

}  // namespace

Positions find_positions(const Model& model, const ocellus_limits& limits, const ocellus_plan& plan) {
  Positions positions = {.needed = positions_of(model, limits, plan),
                         .available = model.facts.context_length,
                         .pictures = pictures_of(model, limits),
                         .advice = {}};
  if (positions.are_enough()) return positions;
  PositionAdvisor advisor(model, limits, &positions);
  if (limits.max_images > 0) {
    advisor.reduce(&ocellus_limits::max_tiles, planned_tiles(model, limits), 1, "tiles per picture", "--image-tiles");
    if (model.facts.any_image_size != 0)
      advisor.reduce(&ocellus_limits::max_image_rows, plan.rows_per_image, 1, "rows per picture", "--image-rows");
    advisor.reduce(&ocellus_limits::max_images, limits.max_images, 1, "images per session", "--images");
  }
  advisor.reduce(&ocellus_limits::max_clip_frames, limits.max_clip_frames, 1, "frames of clips per session",
                 "--clip-frames");
  advisor.reduce(&ocellus_limits::max_text_tokens, limits.max_text_tokens, 16, "text tokens per session",
                 "--text-tokens");
  return positions;
}

std::string describe_positions(const Positions& positions, const ocellus_limits& limits) {
  if (positions.are_enough()) return "";
  return format_count(positions.pictures, "picture") + " and " + format_count(limits.max_text_tokens, "text token") +
         " take up to " + std::to_string(positions.needed) + " positions, but the model has " +
         std::to_string(positions.available);
}

}  // namespace ocellus::app

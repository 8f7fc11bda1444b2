#include "mm/views/clip_views.h"

#include <algorithm>

namespace ocellus {

PreprocessConfig of_clip(const PreprocessConfig& config) {
  PreprocessConfig changed = config;
  if (config.clip_rows > 0) changed.view_rows = config.clip_rows;
  if (config.clip_views != nullptr) changed.rules = config.clip_views;
  return changed;
}

void place_in_time(const TimePlace& place, ViewPlan* plan) {
  const int32_t longer = plan->view_positions;
  const auto taken = [&](int32_t pictures) {
    return pictures == 0 ? 0 : std::max(longer, (pictures - 1) * place.step + 1);
  };
  plan->opens = place.index == 0;
  plan->closes = place.index == place.count - 1;
  plan->time = place.index * place.step;
  plan->earlier = taken(place.index);
  plan->view_positions = taken(place.index + 1) - plan->earlier;
}

}  // namespace ocellus

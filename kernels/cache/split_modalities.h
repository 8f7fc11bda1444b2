#pragma once

#include "platform/queue.h"
#include "platform/views.h"
#include "quant/kv_format.h"

namespace ocellus {

/// Converts the attention that rows get from text queries and from visual queries, in place, to the attention from
/// queries of their own modality and from those of the other (CSP, section 3), and adds the two:
///
///   visual row j   same = of_visual[g][j], cross = of_text[g][j]
///   text row j     same = of_text[g][j],   cross = of_visual[g][j]
///
/// Shapes    of_text, of_visual, sums [G, >= row_count] f32; is_visual [row_count]. Afterwards of_text holds `same` and
///           of_visual `cross`
/// Special   NaN stays NaN
struct SplitModalitiesArgs {
  DeviceView<float> of_text = {};
  DeviceView<float> of_visual = {};
  const uint8_t* is_visual = nullptr;
  int64_t row_count = 0;
  DeviceView<float> sums = {};
};
void split_modalities(const SplitModalitiesArgs& args, Queue& queue);

namespace modalities {

/// One row of one head.
OCELLUS_EVERYWHERE inline void split(float& of_text, float& of_visual, bool is_visual, float& sum) {
  const float text = of_text, visual = of_visual;
  of_text = is_visual ? visual : text;
  of_visual = is_visual ? text : visual;
  sum = text + visual;
}

}  // namespace modalities
}  // namespace ocellus

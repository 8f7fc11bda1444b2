// CLIP: a class row before the patches of each view, positions, and a norm before the layers.
#include "kernels/rows/class_rows.h"
#include "kernels/rows/layernorm.h"
#include "mm/tower/tower_pass.h"

namespace ocellus {

void embed_clip(const TowerPass& pass, DeviceView<const float> pixels, int64_t first, int64_t count, Queue& q) {
  const ClipParts& parts = pass.model.clip;
  const DeviceView<float> hidden = pass.hidden.slice_rows(first, count);
  embed_patches(pass, pixels, first, count, q);
  place_class_rows({.values = hidden, .class_row = parts.class_row, .positions = parts.positions, .first = first}, q);
  layernorm({.input = hidden,
             .weight = parts.first_norm_weight,
             .bias = parts.first_norm_bias,
             .epsilon = pass.model.config.epsilon,
             .output = hidden},
            q);
}

}  // namespace ocellus

// SigLIP: patches with their positions, and a norm behind the layers.
#include <algorithm>

#include "kernels/linear/elementwise.h"
#include "kernels/rows/layernorm.h"
#include "mm/tower/tower_pass.h"

namespace ocellus {

void embed_siglip(const TowerPass& pass, DeviceView<const float> pixels, int64_t first, int64_t count, Queue& q) {
  const VisionConfig& c = pass.model.config;
  embed_patches(pass, pixels, first, count, q);
  // A block takes its own positions; several views take all, again and again.
  const DeviceView<const float> positions(pass.model.siglip.positions, c.patch_count(), c.width);
  add_rows({.values = pass.hidden.slice_rows(first, count),
            .addend = positions.slice_rows(first, std::min<int64_t>(count, c.patch_count()))},
           q);
}

void normalise_siglip(const TowerPass& pass, Queue& q) {
  const SiglipParts& parts = pass.model.siglip;
  layernorm({.input = pass.hidden,
             .weight = parts.final_norm_weight,
             .bias = parts.final_norm_bias,
             .epsilon = pass.model.config.epsilon,
             .output = pass.hidden},
            q);
}

}  // namespace ocellus

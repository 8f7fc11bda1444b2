#include "mm/tower/vision_tower.h"

#include "kernels/linear/rmsnorm.h"
#include "kernels/rows/layernorm.h"
#include "mm/tower/tower_pass.h"

namespace ocellus {

void apply_norm(const NormWeights& norm, float epsilon, DeviceView<const float> rows, ActivationView output, Queue& q) {
  if (norm.bias == nullptr)
    rmsnorm({.input = rows, .weight = norm.weight, .epsilon = epsilon, .output = output}, q);
  else
    layernorm({.input = rows, .weight = norm.weight, .bias = norm.bias, .epsilon = epsilon, .output = output}, q);
}

Status encode_views(const EncodeArgs& args, Queue& queue) {
  TowerPass pass(args, queue);
  args.model.config.tower->encode(pass);
  return queue.status();
}

}  // namespace ocellus

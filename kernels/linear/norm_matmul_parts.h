// norm_matmul and gated_matmul as separate ops, on either backend.
#pragma once

#include "kernels/linear/elementwise.h"
#include "kernels/linear/norm_matmul.h"
#include "kernels/linear/rmsnorm.h"

namespace ocellus {

inline void norm_matmul_in_parts(const NormMatmulArgs& args, Queue& queue) {
  rmsnorm({.input = args.input, .weight = args.norm_weight, .epsilon = args.epsilon, .output = args.normed}, queue);
  matmul({.input = args.normed,
          .count = args.count,
          .weights = {args.weights[0], args.weights[1], args.weights[2]},
          .biases = {args.biases[0], args.biases[1], args.biases[2]},
          .outputs = {args.outputs[0], args.outputs[1], args.outputs[2]},
          .activation = args.activation,
          .scratch = args.scratch},
         queue);
}

inline void gated_matmul_in_parts(const GatedMatmulArgs& args, Queue& queue) {
  rmsnorm({.input = args.input, .weight = args.norm_weight, .epsilon = args.epsilon, .output = args.normed}, queue);
  matmul({.input = args.normed,
          .count = 2,
          .weights = {args.gate_weight, args.up_weight},
          .biases = {args.gate_bias, args.up_bias},
          .outputs = {args.gate, args.up},
          .scratch = args.scratch},
         queue);
  gated_activation({.gate = args.gate, .up = args.up, .activation = args.activation}, queue);
}

}  // namespace ocellus

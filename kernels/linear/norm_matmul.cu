#include "kernels/backends.h"
#include "kernels/linear/matmul_few_rows.h"
#include "kernels/linear/norm_matmul_parts.h"

namespace ocellus {
namespace cuda {

void norm_matmul(const NormMatmulArgs& args, Queue& queue) {
  if (!queue.ok() || args.input.rows == 0) return;
  if (!few_rows_fits(args.input.rows, args.weights, args.count, false, queue.traits()))
    return norm_matmul_in_parts(args, queue);
  multiply_few_rows({.input = args.input,
                     .norm_weight = args.norm_weight,
                     .epsilon = args.epsilon,
                     .count = args.count,
                     .weights = {args.weights[0], args.weights[1], args.weights[2]},
                     .biases = {args.biases[0], args.biases[1], args.biases[2]},
                     .outputs = {args.outputs[0], args.outputs[1], args.outputs[2]},
                     .activation = args.activation,
                     .scratch = args.scratch},
                    queue);
}

void gated_matmul(const GatedMatmulArgs& args, Queue& queue) {
  if (!queue.ok() || args.input.rows == 0) return;
  const WeightView weights[] = {args.gate_weight, args.up_weight};
  if (!few_rows_fits(args.input.rows, weights, 2, true, queue.traits())) return gated_matmul_in_parts(args, queue);
  multiply_few_rows({.input = args.input,
                     .norm_weight = args.norm_weight,
                     .epsilon = args.epsilon,
                     .count = 2,
                     .weights = {args.gate_weight, args.up_weight},
                     .biases = {args.gate_bias, args.up_bias},
                     .outputs = {args.gate},
                     .gated = true,
                     .activation = args.activation,
                     .scratch = args.scratch},
                    queue);
}

}  // namespace cuda
}  // namespace ocellus

#include "kernels/backends.h"
#include "kernels/elementwise.h"
#include "kernels/matmul_few_rows.h"
#include "kernels/norm_matmul.h"
#include "kernels/rmsnorm.h"

namespace ocellus {
namespace cuda {
namespace {

void normalise(const DeviceView<const float>& input, const float* weight, float epsilon, const ActivationView& out,
               Queue& queue) {
  ocellus::rmsnorm({.input = input, .weight = weight, .epsilon = epsilon, .output = out}, queue);
}

}  // namespace

void norm_matmul(const NormMatmulArgs& args, Queue& queue) {
  if (!queue.ok() || args.input.rows == 0) return;
  const bool few = few_rows_fits(args.input.rows, args.weights, args.count, false);
  FewRowsArgs product;
  product.input = few ? ActivationView(args.input) : args.normed;
  product.norm_weight = args.norm_weight;
  product.epsilon = args.epsilon;
  product.count = args.count;
  product.scratch = args.scratch;
  for (int i = 0; i < args.count; ++i) {
    product.weights[i] = args.weights[i];
    product.biases[i] = args.biases[i];
    product.outputs[i] = args.outputs[i];
  }
  if (few) return multiply_few_rows(product, queue);
  normalise(args.input, args.norm_weight, args.epsilon, args.normed, queue);
  MatmulArgs many;
  many.input = args.normed;
  many.count = args.count;
  many.scratch = args.scratch;
  for (int i = 0; i < args.count; ++i) {
    many.weights[i] = args.weights[i];
    many.biases[i] = args.biases[i];
    many.outputs[i] = args.outputs[i];
  }
  ocellus::matmul(many, queue);
}

void gated_matmul(const GatedMatmulArgs& args, Queue& queue) {
  if (!queue.ok() || args.input.rows == 0) return;
  const WeightView weights[2] = {args.gate_weight, args.up_weight};
  if (few_rows_fits(args.input.rows, weights, 2, true)) {
    FewRowsArgs product;
    product.input = args.input;
    product.norm_weight = args.norm_weight;
    product.epsilon = args.epsilon;
    product.count = 2;
    product.weights[0] = args.gate_weight;
    product.weights[1] = args.up_weight;
    product.biases[0] = args.gate_bias;
    product.biases[1] = args.up_bias;
    product.outputs[0] = args.gate;
    product.gated = true;
    product.scratch = args.scratch;
    return multiply_few_rows(product, queue);
  }
  normalise(args.input, args.norm_weight, args.epsilon, args.normed, queue);
  MatmulArgs many;
  many.input = args.normed;
  many.count = 2;
  many.weights[0] = args.gate_weight;
  many.weights[1] = args.up_weight;
  many.biases[0] = args.gate_bias;
  many.biases[1] = args.up_bias;
  many.outputs[0] = args.gate;
  many.outputs[1] = args.up;
  many.scratch = args.scratch;
  ocellus::matmul(many, queue);
  ocellus::gated_silu({.gate = args.gate, .up = args.up}, queue);
}

}  // namespace cuda
}  // namespace ocellus

#include "kernels/backends.h"
#include "kernels/elementwise.h"
#include "kernels/norm_matmul.h"
#include "kernels/rmsnorm.h"

namespace ocellus {
namespace {

void normalise(DeviceView<const float> input, const float* weight, float epsilon, const ActivationView& out,
               Queue& queue) {
  cpu::rmsnorm({.input = input, .weight = weight, .epsilon = epsilon, .output = out}, queue);
}

}  // namespace

void cpu::norm_matmul(const NormMatmulArgs& args, Queue& queue) {
  normalise(args.input, args.norm_weight, args.epsilon, args.normed, queue);
  MatmulArgs product;
  product.input = args.normed;
  product.count = args.count;
  product.scratch = args.scratch;
  for (int i = 0; i < args.count; ++i) {
    product.weights[i] = args.weights[i];
    product.biases[i] = args.biases[i];
    product.outputs[i] = args.outputs[i];
  }
  cpu::matmul(product, queue);
}

void cpu::gated_matmul(const GatedMatmulArgs& args, Queue& queue) {
  normalise(args.input, args.norm_weight, args.epsilon, args.normed, queue);
  cpu::matmul({.input = args.normed,
               .count = 2,
               .weights = {args.gate_weight, args.up_weight},
               .biases = {args.gate_bias, args.up_bias},
               .outputs = {args.gate, args.up},
               .scratch = args.scratch},
              queue);
  cpu::gated_silu({.gate = args.gate, .up = args.up}, queue);
}

}  // namespace ocellus

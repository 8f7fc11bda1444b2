// Selects the kernel over packed tiles for a call.
#include "kernels/attention/step/packed_kernels.cuh"

namespace ocellus::cuda {
namespace {

/// Heads of up to 64, 128, 256 and 512 channels; with 1 bit, a row of up to 128 channels is one unit of 16 bytes.
template <int kBits>
void launch_bits(const StepParams& params, const AttendStepArgs& args, const AttendStepPlan& plan, Queue& queue) {
  if (args.heads.dim > 256) return launch_packed<PackedShape<kBits, 8>>(params, args, plan, queue);
  if (args.heads.dim > 128) return launch_packed<PackedShape<kBits, 4>>(params, args, plan, queue);
  if constexpr (kBits > 1) {
    if (args.heads.dim <= 64) return launch_packed<PackedShape<kBits, 1>>(params, args, plan, queue);
  }
  launch_packed<PackedShape<kBits, 2>>(params, args, plan, queue);
}

}  // namespace

void attend_step_packed(const StepParams& params, const AttendStepArgs& args, const AttendStepPlan& plan,
                        Queue& queue) {
  switch (most_bits(args.layer.format)) {
    case 1: return launch_bits<1>(params, args, plan, queue);
    case 2: return launch_bits<2>(params, args, plan, queue);
    case 4: return launch_bits<4>(params, args, plan, queue);
    default: return launch_bits<8>(params, args, plan, queue);
  }
}

}  // namespace ocellus::cuda

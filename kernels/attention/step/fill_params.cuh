// Parameters that the host passes to the kernels of attend_step.
#pragma once

#include <numbers>

#include "kernels/attention/step/block.cuh"

namespace ocellus::cuda {

inline StepParams step_params(const AttendStepArgs& args, const AttendStepPlan& plan) {
  const int64_t dim = args.heads.dim, groups = plan.groups(args.query.rows, args.heads.kv);
  const int64_t blocks = groups * plan.pieces;
  StepParams p{};
  p.query = static_cast<const __half*>(args.query.data);
  p.key = static_cast<const __half*>(args.key.data);
  p.value = static_cast<const __half*>(args.value.data);
  p.query_stride = args.query.stride;
  p.key_stride = args.key.stride;
  p.value_stride = args.value.stride;
  p.angles = args.angles.data;
  p.angle_stride = args.angles.stride;
  p.steps = args.tiles.steps;
  p.tiles = args.tiles.runs;
  p.tiles_per_row = args.tiles.per_row;
  p.output = static_cast<__half*>(args.output.data);
  p.output_stride = args.output.stride;
  const int64_t counters =
      args.scratch.rows * args.scratch.cols - AttendStepScratch::counters_bytes(groups, args.layer.format);
  p.mixed = reinterpret_cast<float4*>(args.scratch.data);
  p.weighed = reinterpret_cast<float2*>(p.mixed + blocks * plan.heads * dim / 4);
  p.done = reinterpret_cast<uint32_t*>(args.scratch.data + counters);
  p.scale = std::numbers::log2e_v<float> / std::sqrt(static_cast<float>(dim));
  p.shared_by = args.heads.query / args.heads.kv;
  p.head_dim = args.heads.dim;
  p.heads = static_cast<int>(plan.heads);
  p.head_tiles = static_cast<int>(plan.head_tiles);
  p.kv_heads = args.heads.kv;
  p.rotated = args.rope.rotated;
  p.layer = args.layer.index;
  p.scales = args.layer.scales;
  p.format = args.layer.format;
  if (args.layer.scales != KvScaleForm::kByToken)  // their number depends on the block
    p.scale_bytes = static_cast<int>(KvBlockLayout::scale_bytes(args.heads.dim, 0, args.layer.scales));
  p.layer_offset = args.layer.offset;
  p.pairing = args.rope.pairing;
  p.cache_settled = args.cache_settled;
  p.octaves_per_pair = -2.0 * std::log2(static_cast<double>(args.rope.base)) / args.rope.rotated;
  p.position_scale = args.rope.position_scale;
  p.factors = args.rope.factors;
  if (!is_packed(args.layer.format) || !args.calibration.on) return p;
  p.ranges = p.done + groups;
  p.tau_low = args.calibration.tau_low;
  p.tau_high = args.calibration.tau_high;
  return p;
}

/// Pieces, key/value heads times head tiles, rows.
inline dim3 step_grid(const AttendStepArgs& args, const AttendStepPlan& plan) {
  return dim3(static_cast<unsigned>(plan.pieces), static_cast<unsigned>(args.heads.kv * plan.head_tiles),
              static_cast<unsigned>(args.query.rows));
}

/// attend_step for calls that have packed tiles (packed_kernels.cu).
void attend_step_packed(const StepParams& params, const AttendStepArgs& args, const AttendStepPlan& plan, Queue& queue);

}  // namespace ocellus::cuda

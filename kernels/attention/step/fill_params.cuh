// Parameters that the host passes to the kernels of attend_step.
#pragma once

#include <numbers>

#include "kernels/attention/step/block.cuh"

namespace ocellus::cuda {

inline StepParams step_params(const AttendStepArgs& args, const AttendStepPlan& plan, bool batch_invariant) {
  const int64_t dim = args.heads.dim, groups = plan.groups(args.query.rows, args.heads.kv);
  const int64_t blocks = groups * plan.pieces;
  StepParams p{};
  p.rows = {.query = static_cast<const __half*>(args.query.data),
            .key = static_cast<const __half*>(args.key.data),
            .value = static_cast<const __half*>(args.value.data),
            .query_stride = args.query.stride,
            .key_stride = args.key.stride,
            .value_stride = args.value.stride,
            .angles = args.angles.data,
            .angle_stride = args.angles.stride,
            .output = static_cast<__half*>(args.output.data),
            .output_stride = args.output.stride};
  p.tiles = args.tiles;
  const int64_t counters =
      args.scratch.rows * args.scratch.cols - AttendStepScratch::counters_bytes(groups, args.layer.format);
  p.partials.mixed = reinterpret_cast<float4*>(args.scratch.data);
  p.partials.weighed = reinterpret_cast<float2*>(p.partials.mixed + blocks * plan.heads * dim / 4);
  p.partials.done = reinterpret_cast<uint32_t*>(args.scratch.data + counters);
  p.heads = {.scale = std::numbers::log2e_v<float> / std::sqrt(static_cast<float>(dim)),
             .shared_by = args.heads.query / args.heads.kv,
             .dim = args.heads.dim,
             .per_block = static_cast<int>(plan.heads),
             .tiles = static_cast<int>(plan.head_tiles),
             .kv = args.heads.kv};
  // With scales by token the number of their bytes depends on the block.
  const bool by_token = args.layer.scales == KvScaleForm::kByToken;
  p.layer = {
      .index = args.layer.index,
      .scale_bytes = by_token ? 0 : static_cast<int>(KvBlockLayout::scale_bytes(args.heads.dim, 0, args.layer.scales)),
      .key_row_bytes = args.heads.dim * key_bits(args.layer.format) / 8,
      .value_row_bytes = args.heads.dim * value_bits(args.layer.format) / 8,
      .scales = args.layer.scales,
      .format = args.layer.format,
      .offset = args.layer.offset};
  p.cache_settled = args.cache_settled;
  p.batch_invariant = batch_invariant;
  p.rope = {.rotated = args.rope.rotated,
            .pairing = args.rope.pairing,
            .octaves_per_pair = -2.0 * std::log2(static_cast<double>(args.rope.base)) / args.rope.rotated,
            .position_scale = args.rope.position_scale,
            .factors = args.rope.factors};
  if (!is_packed(args.layer.format) || !args.calibration.on) return p;
  p.calibration = {
      .ranges = p.partials.done + groups, .tau_low = args.calibration.tau_low, .tau_high = args.calibration.tau_high};
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

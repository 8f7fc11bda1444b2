// New slots of rows that see each other's: stored by a kernel of their own, before any row attends.
#pragma once

#include "kernels/attention/step/block.cuh"

namespace ocellus::cuda {

/// Grid: key/value heads, rows. The bits are those that the other kernels of attend_step store.
__global__ void store_new_slots(const StepParams p) {
  let_next_start();
  wait_for_inputs();
  const int row = static_cast<int>(blockIdx.y), head = static_cast<int>(blockIdx.x), dim = p.heads.dim;
  if (p.tiles.steps[row].active == 0) return;
  const StepSlot newest = newest_slot(p, row);
  const KvRun& tile = p.tiles.at(row, newest.tile);
  std::byte* const to = keys_of(tile, p.layer.index, head);
  __half* const keys = reinterpret_cast<__half*>(to) + int64_t{newest.slot} * dim;
  __half* const values = reinterpret_cast<__half*>(to + tile.value_offset) + int64_t{newest.slot} * dim;
  const __half* const key = p.rows.key + row * p.rows.key_stride + int64_t{head} * dim;
  const __half* const value = p.rows.value + row * p.rows.value_stride + int64_t{head} * dim;
  const float* const angles = p.rows.angles + row * p.rows.angle_stride;
  const int turned = p.rope.rotated / 2;
  const bool split = p.rope.pairing == RopePairing::kHalves;
  for (int i = static_cast<int>(threadIdx.x); i < dim / 2; i += kStepThreads) {
    const bool turns = i < turned;
    const int first = split && turns ? i : 2 * i, second = split && turns ? i + turned : 2 * i + 1;
    float2 pair{__half2float(key[first]), __half2float(key[second])};
    if (turns) pair = turn_pair(pair, {angles[2 * i], angles[2 * i + 1]});
    keys[first] = round_half(pair.x);
    keys[second] = round_half(pair.y);
    values[first] = value[first];
    values[second] = value[second];
  }
}

inline dim3 step_store_grid(const AttendStepArgs& args) {
  return dim3(static_cast<unsigned>(args.heads.kv), static_cast<unsigned>(args.query.rows));
}

}  // namespace ocellus::cuda

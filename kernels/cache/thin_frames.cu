#include "kernels/backends.h"
#include "kernels/base/device_math.cuh"
#include "kernels/base/launch.cuh"
#include "kernels/cache/thin_frames.h"

namespace ocellus {
namespace cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
constexpr int kMovers = 1024;
constexpr int kUnit = 8;  // values of one 16-byte access

/// A warp's product of two rows.
__device__ float dot(const Half* a, const Half* b, int dim, int lane) {
  const auto *left = reinterpret_cast<const __half2*>(a), *right = reinterpret_cast<const __half2*>(b);
  float sum = 0;
  for (int i = lane; i < dim / 2; i += kWarp) {
    const float2 x = __half22float2(left[i]), y = __half22float2(right[i]);
    sum = fmaf(x.x, y.x, fmaf(x.y, y.y, sum));
  }
  return warp_sum(sum);
}

/// A warp measures a slot of the head blockIdx.y.
__global__ void __launch_bounds__(kThreads) measure_slots(const __grid_constant__ ScoreFramesArgs a) {
  const FrameRuns& frames = a.frames;
  const int64_t at = int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp, head = blockIdx.y;
  const int lane = static_cast<int>(threadIdx.x) % kWarp, dim = frames.head_dim;
  wait_for_inputs();
  let_next_start();
  if (at >= frames.total()) return;
  const Half* const value = frames.value(head, at);
  const float norm = sqrtf(dot(value, value, dim, lane));
  float sum = 0;
  if (at < int64_t{frames.count - a.recent} * frames.slots) {
    const bool has_note = at < int64_t{frames.thinned} * frames.slots;
    const int64_t place = has_note ? frames.note(head, at).place : at % frames.slots;
    const Half* const key = frames.key(head, at);
    const float length = sqrtf(dot(key, key, dim, lane)) + 1e-9f;
    for (int64_t frame = frames.count - a.recent; frame < frames.count; ++frame) {
      const Half* const other = frames.key(head, frame * frames.slots + place);
      const float length_there = sqrtf(dot(other, other, dim, lane)) + 1e-9f;
      sum += dot(key, other, dim, lane) / (length * length_there);
    }
  }
  if (lane != 0) return;
  a.norms.data[head * a.norms.stride + at] = norm;
  a.novelty.data[head * a.novelty.stride + at] = -sum / static_cast<float>(a.recent);
}

/// A thread pools a slot of the head blockIdx.y.
__global__ void pool_values(const __grid_constant__ ScoreFramesArgs a) {
  const FrameRuns& frames = a.frames;
  const int64_t at = int64_t{blockIdx.x} * kThreads + threadIdx.x, head = blockIdx.y;
  wait_for_inputs();
  let_next_start();
  if (at >= frames.total()) return;
  const int64_t thinned = frames.total() - frames.whole();
  FrameNote& note = frames.note(head, at);
  if (at >= thinned) {
    const float* const norms = a.norms.data + head * a.norms.stride + thinned;
    const float mean = a.pool.mean(norms, frames.whole(), frames.slots, at - thinned);
    note = {static_cast<int32_t>(at % frames.slots), fmaxf(mean, ScoreFramesArgs::kLeastValue)};
  }
  a.values.data[head * a.values.stride + at] = note.value;
}

/// A block moves the slots of a head, a piece of as many units at a time as it has threads: no slot moves up, so that
/// what a piece overwrites was read with it or before. A slot is the units of its key, of its value, and its note.
__global__ void __launch_bounds__(kMovers) move_slots(const __grid_constant__ CompactFramesArgs a) {
  const FrameRuns& frames = a.frames;
  const int64_t head = blockIdx.x;
  const int row_units = frames.head_dim / kUnit, slot_units = 2 * row_units + 1;
  const int32_t* const kept = a.kept.data + head * a.kept.stride;
  wait_for_inputs();
  let_next_start();
  for (int64_t piece = 0; piece < a.kept_count * slot_units; piece += kMovers) {
    const int64_t unit = piece + threadIdx.x, to = unit / slot_units;
    const int part = static_cast<int>(unit % slot_units), row_part = part % row_units * kUnit;
    const bool moves = to < a.kept_count, is_note = part == 2 * row_units, is_key = part < row_units;
    uint4 row = {};
    FrameNote note;
    if (moves && is_note) note = frames.note(head, kept[to]);
    if (moves && !is_note)
      row = *reinterpret_cast<const uint4*>((is_key ? frames.key(head, kept[to]) : frames.value(head, kept[to])) +
                                            row_part);
    __syncthreads();
    if (moves && is_note) frames.note(head, to) = note;
    if (moves && !is_note)
      *reinterpret_cast<uint4*>((is_key ? frames.key(head, to) : frames.value(head, to)) + row_part) = row;
    __syncthreads();
  }
}

}  // namespace

void score_frames(const ScoreFramesArgs& args, Queue& queue) {
  const auto heads = static_cast<unsigned>(args.frames.heads);
  const auto blocks = [&](int each) { return static_cast<unsigned>(divide_up(args.frames.total(), each)); };
  launch<measure_slots>(queue, "score_frames", {.grid = dim3(blocks(kWarps), heads), .threads = kThreads}, args);
  launch<pool_values>(queue, "score_frames", {.grid = dim3(blocks(kThreads), heads), .threads = kThreads}, args);
}

void compact_frames(const CompactFramesArgs& args, Queue& queue) {
  const LaunchShape shape{.grid = static_cast<unsigned>(args.frames.heads), .threads = kMovers};
  launch<move_slots>(queue, "compact_frames", shape, args);
}

}  // namespace cuda
}  // namespace ocellus

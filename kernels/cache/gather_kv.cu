#include "kernels/backends.h"
#include "kernels/base/device_math.cuh"
#include "kernels/base/launch.cuh"
#include "kernels/cache/gather_kv.h"

namespace ocellus {
namespace cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kUnit = 8;  // values of one 16-byte access

/// A block of threads fills one run of one head; a thread copies 16 bytes of a key and of its value at a time.
__global__ void gather_run(const __grid_constant__ GatherKvArgs args) {
  const int head = static_cast<int>(blockIdx.y), head_units = args.rows.head_dim / kUnit;
  wait_for_inputs();
  let_next_start();
  const KvRun run = args.runs[blockIdx.x];
  const int units = live_slots(run, args.layer, args.rows.heads, head) * head_units;
  const int32_t* const from_rows = args.indices + head * args.index_stride + run.counted_before + run.first;
  Half* const keys = run_keys(run, args.layer, head);
  Half* const values = run_values(run, args.layer, head);
  for (int unit = static_cast<int>(threadIdx.x); unit < units; unit += kThreads) {
    const int slot = unit / head_units, at = unit % head_units * kUnit;
    const int64_t from = from_rows[slot] * args.rows.row_stride + head * args.rows.head_stride + at;
    const int64_t to = int64_t{slot} * args.rows.head_dim + at;
    const uint4 key = *reinterpret_cast<const uint4*>(args.rows.keys + from);
    const uint4 value = *reinterpret_cast<const uint4*>(args.rows.values + from);
    *reinterpret_cast<uint4*>(keys + to) = key;
    *reinterpret_cast<uint4*>(values + to) = value;
  }
}

}  // namespace

void gather_kv(const GatherKvArgs& args, Queue& queue) {
  const dim3 grid(static_cast<unsigned>(args.run_count), static_cast<unsigned>(args.rows.heads));
  launch<gather_run>(queue, "gather_kv", {.grid = grid, .threads = kThreads}, args);
}

}  // namespace cuda
}  // namespace ocellus

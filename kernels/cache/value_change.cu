#include "kernels/backends.h"
#include "kernels/base/device_math.cuh"
#include "kernels/base/launch.cuh"
#include "kernels/cache/value_change.h"

namespace ocellus {
namespace cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / kWarp;

/// A warp measures a row.
__global__ void __launch_bounds__(kThreads) measure_values(const __grid_constant__ ValueChangeArgs a) {
  const int64_t t = int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  wait_for_inputs();
  let_next_start();
  if (t >= a.count) return;
  const KvSlot slot = a.slots[t];
  float change = 0;
  for (int head = 0; slot.key != nullptr && head < a.rows.heads; ++head) {
    const std::byte* key = slot.key + a.layer * slot.layer_stride + head * slot.head_stride;
    const auto* stored = reinterpret_cast<const __half2*>(key + slot.value_offset);
    const auto* values = reinterpret_cast<const __half2*>(a.rows.values + a.rows.at(t, head));
    for (int i = lane; i < a.rows.head_dim / 2; i += kWarp) {
      const float2 now = __half22float2(values[i]), then = __half22float2(stored[i]);
      change = fmaf(now.x - then.x, now.x - then.x, change);
      change = fmaf(now.y - then.y, now.y - then.y, change);
    }
  }
  change = warp_sum(change);
  if (lane == 0) a.changes[t] = change;
}

}  // namespace

void value_change(const ValueChangeArgs& args, Queue& queue) {
  const LaunchShape shape{.grid = static_cast<unsigned>(divide_up(args.count, kWarps)), .threads = kThreads};
  launch<measure_values>(queue, "value_change", shape, args);
}

}  // namespace cuda
}  // namespace ocellus

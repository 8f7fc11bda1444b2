// Histograms over a row's candidates: the bin in which a sum of counts or weights passes its goal.
#pragma once

#include "kernels/sampling/sample_room.cuh"

namespace ocellus::cuda {

/// Bins of the first histogram: of equal width, never falling as logits fall.
__device__ inline int first_bin(float logit, float largest) {
  return static_cast<int>(fminf(__fmul_rn(__fsub_rn(largest, logit), kBinsPerLogit), kBins - 1));
}

/// Returns the smallest key whose bin lies before `limit`; most_key + 1 if there is none.
__device__ inline uint32_t smallest_key_before(int limit, float most, uint32_t most_key) {
  uint32_t low = kLowestKey, high = most_key + 1;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (first_bin(logit_of(middle), most) < limit)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

__device__ inline void clear_bins(Room& room) {
  for (int i = static_cast<int>(threadIdx.x); i < kBins; i += kSearchThreads)
    room.count[i] = room.weight_low[i] = room.weight_high[i] = 0;
}

__device__ inline void add_to_bin(Room& room, int bin, uint64_t weight) {
  atomicAdd(&room.count[bin], 1u);
  if (weight == 0) return;
  const uint32_t low = static_cast<uint32_t>(weight);
  const uint32_t before = atomicAdd(&room.weight_low[bin], low);
  const uint32_t high = static_cast<uint32_t>(weight >> 32) + (before + low < before ? 1u : 0u);
  if (high != 0) atomicAdd(&room.weight_high[bin], high);
}

/// Returns the sum that the search must reach, of `total`; 0 if nothing is cut.
__device__ inline uint64_t goal_sum(const Goal& goal, uint64_t total) {
  if (goal.kind == Goal::kCount) return goal.number < total ? goal.number : 0;
  if (goal.kind == Goal::kShare) {
    const uint64_t wanted = __double2ull_ru(__dmul_rn(static_cast<double>(goal.share), __ull2double_rn(total)));
    return wanted < 1 ? 1 : wanted < total ? wanted : total;
  }
  // The first sum above total * random / 2^kRandomBits.
  return __umul64hi(uint64_t{goal.number} << (64 - kRandomBits), total) + 1;
}

/// Finds the bin in which the sum passes the goal, from `range.sum_above` on; the result is in the room. Starts after a
/// barrier and ends with one.
__device__ inline void choose_bin(bool first, const Range& range, Room& room) {
  const int bin = 2 * static_cast<int>(threadIdx.x);
  uint64_t sums[2];
  for (int i = 0; i < 2; ++i)
    sums[i] = room.goal.kind == Goal::kCount ? room.count[bin + i]
                                             : uint64_t{room.weight_high[bin + i]} << 32 | room.weight_low[bin + i];
  const uint32_t counts[2] = {room.count[bin], room.count[bin + 1]};
  // Sums up to and including this thread's bins: within the warp, then over the warps.
  uint64_t sum = sums[0] + sums[1];
  uint32_t count = counts[0] + counts[1];
  const auto scan = [](uint64_t& s, uint32_t& c) {
    for (int offset = 1; offset < kWarp; offset *= 2) {
      const uint64_t other_sum = __shfl_up_sync(kAllLanes, s, static_cast<unsigned>(offset));
      const uint32_t other_count = __shfl_up_sync(kAllLanes, c, static_cast<unsigned>(offset));
      if (lane_index() < offset) continue;
      s += other_sum;
      c += other_count;
    }
  };
  scan(sum, count);
  if (lane_index() == kWarp - 1) {
    room.warp_sum[warp_index()] = sum;
    room.warp_count[warp_index()] = count;
  }
  __syncthreads();
  uint64_t warps_sum = room.warp_sum[lane_index()];
  uint32_t warps_count = room.warp_count[lane_index()];
  scan(warps_sum, warps_count);
  const int last_warp = warp_index() > 0 ? warp_index() - 1 : 0;
  const uint64_t before_sum = __shfl_sync(kAllLanes, warps_sum, last_warp);
  const uint32_t before_count = __shfl_sync(kAllLanes, warps_count, last_warp);
  if (warp_index() > 0) {
    sum += before_sum;
    count += before_count;
  }
  if (first && threadIdx.x == kSearchThreads - 1) room.goal_sum = goal_sum(room.goal, sum);
  __syncthreads();

  sum += range.sum_above - sums[0] - sums[1];
  count += range.count_above - counts[0] - counts[1];
  for (int i = 0; i < 2; ++i) {
    if (sum < room.goal_sum && room.goal_sum <= sum + sums[i]) {
      room.bin = bin + i;
      room.sum_above = sum;
      room.count_above = count;
      room.bin_count = counts[i];
    }
    sum += sums[i];
    count += counts[i];
  }
  __syncthreads();
}

/// Moves the range to the result of choose_bin() in the room.
__device__ inline void enter_bin(const Room& room, Range& range) {
  range.sum_above = room.sum_above;
  range.count_above = room.count_above;
  range.count = room.bin_count;
}

}  // namespace ocellus::cuda

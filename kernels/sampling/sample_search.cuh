// Searches among a row's candidates without a sort, by one block. The candidates' total order (logit, then token id) is
// an integer; a histogram over it finds the bin in which a sum of counts or weights passes its goal, and the bin is
// searched in the same way until one candidate is left. Every cut (top-k, typical-p, top-p) and the draw itself are
// such searches.
#pragma once

#include "kernels/sampling/sample_bins.cuh"

namespace ocellus::cuda {

/// Writes the few candidates up to the end of the range to the list.
template <bool kByDistance>
__device__ void make_list(const Task& task, const Range& range, Room& room) {
  visit_candidates<kByDistance>(task, room, [&](uint64_t order, float logit) {
    if (order < range.low) return;
    room.list[atomicAdd(&room.gathered, 1)] = Order<kByDistance>{task, room}.logit_word(order, logit);
  });
  __syncthreads();
  if (threadIdx.x == 0) {
    room.list_count = room.gathered;
    room.gathered = 0;
  }
  __syncthreads();
}

/// Finds, among the few candidates in the range, the one with which the sum reaches the goal.
template <bool kByDistance, class Weigh>
__device__ void cut_near(const Task& task, const Range& range, Room& room, Weigh weigh) {
  visit_candidates<kByDistance>(task, room, [&](uint64_t order, float logit) {
    if (order < range.low || order > range.high) return;
    const int i = atomicAdd(&room.gathered, 1);
    room.near_order[i] = order;
    room.near_weight[i] = weigh(logit);
  });
  __syncthreads();
  const int count = room.gathered;
  if (static_cast<int>(threadIdx.x) < count) {
    const uint64_t own = room.near_order[threadIdx.x];
    uint64_t sum = range.sum_above;
    for (int j = 0; j < count; ++j) sum += room.near_order[j] >= own ? room.near_weight[j] : 0;
    if (sum >= room.goal_sum && sum - room.near_weight[threadIdx.x] < room.goal_sum)
      (kByDistance ? room.near_cut : room.cut) = own;
  }
  __syncthreads();
}

/// Moves room.cut, or room.near_cut, to the first candidate, in the order, with which the sum of counts or weights of
/// those kept so far reaches the goal. Starts and ends at a barrier.
template <bool kByDistance = false>
__device__ void search(const Goal& goal, const Task& task, Room& room) {
  if (threadIdx.x == 0) {
    room.goal = goal;
    room.gathered = 0;
    room.weighing = make_weighing(task.largest, goal.temperature, task.unit_bits);
  }
  clear_bins(room);
  __syncthreads();
  const Order<kByDistance> in_order{task, room};
  const bool counts = room.goal.kind == Goal::kCount;
  const auto weigh = [&](float logit) -> uint64_t { return counts ? 1 : weight_of(logit, room.weighing, room.powers); };
  const auto binned_weight = [&](float logit) -> uint64_t { return counts ? 0 : weigh(logit); };
  visit_candidates<kByDistance>(task, room, [&](uint64_t, float logit) {
    add_to_bin(room, first_bin(in_order.value(logit), in_order.most()), binned_weight(logit));
  });
  __syncthreads();
  Range range;
  choose_bin(true, range, room);
  if (room.goal_sum == 0) return;
  enter_bin(room, range);

  // The logits of a bin are adjacent, so its ends in the order can be found without looking at candidates.
  if (threadIdx.x < 2)
    room.bounds[threadIdx.x] =
        smallest_key_before(room.bin + 1 - static_cast<int>(threadIdx.x), in_order.most(), in_order.most_key());
  __syncthreads();
  range.low = uint64_t{room.bounds[0]} << task.token_bits;
  range.high = (uint64_t{room.bounds[1]} << task.token_bits) - 1;
  if (range.low < in_order.cut()) range.low = in_order.cut();
  if (room.list_count < 0 && range.count_above + range.count <= kListRoom) make_list<kByDistance>(task, range, room);

  while (range.count > kNearRoom) {
    const int bits = 64 - __clzll(static_cast<long long>(range.high - range.low));
    const int shift = bits > kBinBits ? bits - kBinBits : 0;
    clear_bins(room);
    __syncthreads();
    visit_candidates<kByDistance>(task, room, [&](uint64_t order, float logit) {
      if (order >= range.low && order <= range.high)
        add_to_bin(room, static_cast<int>((range.high - order) >> shift), binned_weight(logit));
    });
    __syncthreads();
    choose_bin(false, range, room);
    enter_bin(room, range);
    range.high -= static_cast<uint64_t>(room.bin) << shift;
    const uint64_t most = (uint64_t{1} << shift) - 1;
    if (range.high - range.low > most) range.low = range.high - most;
  }
  cut_near<kByDistance>(task, range, room, weigh);
}

}  // namespace ocellus::cuda

// A row's candidates for the searches of sample_search.cuh, and sums over them, by one block.
#pragma once

#include "kernels/base/device_math.cuh"
#include "kernels/base/launch.cuh"
#include "kernels/sampling/sample_row.h"
#include "kernels/sampling/sample_weights.cuh"

namespace ocellus::cuda {

inline constexpr int kSearchThreads = 1024;
inline constexpr int kBinBits = 11;
inline constexpr int kBins = 1 << kBinBits;
inline constexpr float kBinsPerLogit = 64;  // in the first histogram
inline constexpr int kListRoom = 1024;      // up to this many candidates are listed: the logits are not read again
inline constexpr int kNearRoom = 256;       // up to this many are compared with each other
inline constexpr unsigned kAllLanes = 0xFFFFFFFFu;
inline constexpr uint32_t kNanBits = 0x7FFFFFFF;
static_assert(kBins == 2 * kSearchThreads && kPowers <= kBins && kNearRoom <= kSearchThreads);

static __device__ const PowerTable kPowerTable = make_power_table();

__device__ inline int lane_index() { return static_cast<int>(threadIdx.x) % kWarp; }
__device__ inline int warp_index() { return static_cast<int>(threadIdx.x) / kWarp; }

/// A range of the order in which the sum passes its goal: words low .. high.
struct Range {
  uint64_t low = 0, high = 0;
  uint64_t sum_above = 0;  // sum over all candidates before it
  uint32_t count_above = 0;
  uint32_t count = 0;  // number of candidates in it
};

/// A search looks for the first candidate with which the sum reaches a number of candidates, a share of all
/// weights, or a random part of them.
struct Goal {
  enum Kind { kCount, kShare, kDraw } kind;
  uint32_t number;  // candidates; the random bits of a draw
  float share;
  float temperature;  // the weights'
};

/// Shared memory of a block that samples.
struct Room {
  uint32_t count[kBins], weight_low[kBins], weight_high[kBins];  // the two halves of weights
  uint64_t powers[kPowers];
  uint64_t list[kListRoom];  // order words
  uint64_t near_order[kNearRoom], near_weight[kNearRoom];
  uint64_t warp_sum[kSearchThreads / kWarp];
  uint32_t warp_count[kSearchThreads / kWarp];
  Weighing weighing;
  Goal goal;
  uint64_t cut;       // order word of the last kept candidate
  uint64_t near_cut;  // the same in the order of distances to `centre`, while typical-p searches in it
  float centre;
  uint64_t goal_sum;  // 0: beyond the total
  uint64_t sum_above;
  uint32_t count_above, bin_count;
  int bin;
  uint32_t bounds[2];
  int list_count;  // < 0: there is no list
  int gathered;
  uint32_t largest_key;
};

/// Returns as many bits as fit the sum of all weights; more than 48 have no effect.
__device__ inline int unit_bits_of(int vocabulary) { return min(48, __clz(vocabulary) + 32); }

/// Common data of all threads of a block about its row.
struct Task {
  float* logits;
  int vocabulary;
  int token_bits;
  int unit_bits;
  uint32_t largest_key;
  float largest;
};

/// The order of candidates in a search: by their logits, or by how near these are to room.centre. `value` stands for
/// the logit then.
template <bool kByDistance>
struct Order {
  const Task& task;
  const Room& room;

  __device__ float value(float logit) const { return kByDistance ? -fabsf(__fsub_rn(logit, room.centre)) : logit; }
  __device__ float most() const { return kByDistance ? 0.0f : task.largest; }
  __device__ uint32_t most_key() const { return kByDistance ? key_of(0.0f) : task.largest_key; }
  __device__ uint64_t word(uint64_t logit_word, float logit) const {
    if (!kByDistance) return logit_word;
    return order_of(key_of(value(logit)), token_of(logit_word, task.token_bits), task.token_bits);
  }
  /// The word in the order of logits.
  __device__ uint64_t logit_word(uint64_t word, float logit) const {
    if (!kByDistance) return word;
    return order_of(key_of(logit), token_of(word, task.token_bits), task.token_bits);
  }
  __device__ uint64_t cut() const { return kByDistance ? room.near_cut : room.cut; }
};

/// Calls visit(order word, logit) for every kept candidate, each in one thread.
template <bool kByDistance = false, class Visit>
__device__ void visit_candidates(const Task& task, const Room& room, Visit visit) {
  constexpr int kAtOnce = 4;
  const Order<kByDistance> in_order{task, room};
  const uint64_t cut = room.cut, own_cut = in_order.cut();
  const auto offer = [&](uint64_t logit_word, float logit) {
    if (logit_word < cut) return;
    const uint64_t word = in_order.word(logit_word, logit);
    if (!kByDistance || word >= own_cut) visit(word, logit);
  };
  for (int i = static_cast<int>(threadIdx.x); i < room.list_count; i += kSearchThreads)
    offer(room.list[i], logit_of(key_in(room.list[i], task.token_bits)));
  if (room.list_count >= 0) return;
  for (int first = static_cast<int>(threadIdx.x); first < task.vocabulary; first += kAtOnce * kSearchThreads) {
    float logits[kAtOnce];
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      const int i = first + j * kSearchThreads;
      logits[j] = i < task.vocabulary ? task.logits[i] : __uint_as_float(kNanBits);
    }
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      const uint32_t key = key_of(logits[j]);
      if (key != 0) offer(order_of(key, first + j * kSearchThreads, task.token_bits), logits[j]);
    }
  }
}

/// Called by all threads: initialises the room for searches, with every candidate kept. Ends with a barrier.
__device__ inline void open_room(Room& room) {
  for (int i = static_cast<int>(threadIdx.x); i < kPowers; i += kSearchThreads) room.powers[i] = kPowerTable.values[i];
  if (threadIdx.x == 0) {
    room.cut = room.near_cut = 0;
    room.list_count = -1;
  }
  __syncthreads();
}

/// Returns the sum over all threads, to all of them. Integers are added, so that the order does not matter. Starts and
/// ends with a barrier.
__device__ inline uint64_t block_sum(uint64_t sum, Room& room) {
  __syncthreads();
  for (int offset = kWarp / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(kAllLanes, sum, offset);
  if (lane_index() == 0) room.warp_sum[warp_index()] = sum;
  __syncthreads();
  sum = 0;
  for (int i = 0; i < kSearchThreads / kWarp; ++i) sum += room.warp_sum[i];
  __syncthreads();
  return sum;
}

/// Called by all threads, in an open room; returns ln of the sum of all e^(logit - largest).
__device__ inline double log_total(const Task& task, Room& room) {
  if (threadIdx.x == 0) room.weighing = make_weighing(task.largest, 1.0f, task.unit_bits);
  __syncthreads();
  uint64_t sum = 0;
  visit_candidates(task, room, [&](uint64_t, float logit) { sum += weight_of(logit, room.weighing, room.powers); });
  const double total = static_cast<double>(block_sum(sum, room));
  return log(total / static_cast<double>(1LL << task.unit_bits));
}

}  // namespace ocellus::cuda

// Sampling without a sort. The candidates' total order (logit, then token id) is an integer; a histogram over it finds
// the bin in which a sum of counts or weights passes its goal, and the bin is searched in the same way until one
// candidate is left. Every cut (top-k, top-p) and the draw itself are such searches.
#include <bit>

#include "kernels/backends.h"
#include "kernels/base/device_math.cuh"
#include "kernels/base/hash_term.h"
#include "kernels/base/launch.cuh"
#include "kernels/sampling/sample.h"
#include "kernels/sampling/sample_weights.cuh"

namespace ocellus {
namespace cuda {
namespace {

constexpr int kFindThreads = 256;
constexpr int kThreads = 1024;
constexpr int kBinBits = 11;
constexpr int kBins = 1 << kBinBits;
constexpr float kBinsPerLogit = 64;  // in the first histogram
constexpr int kListRoom = 1024;      // up to this many candidates are listed: the logits are not read again
constexpr int kNearRoom = 256;       // up to this many are compared with each other
constexpr unsigned kAllLanes = 0xFFFFFFFFu;
constexpr uint32_t kNanBits = 0x7FFFFFFF;
static_assert(kBins == 2 * kThreads && kPowers <= kBins && kNearRoom <= kThreads);

__device__ const PowerTable kPowerTable = make_power_table();

__device__ int lane_index() { return static_cast<int>(threadIdx.x) % kWarp; }
__device__ int warp_index() { return static_cast<int>(threadIdx.x) / kWarp; }

/// Returns the better of both, with the hashes added.
__device__ SamplePart join(const SamplePart& a, const SamplePart& b) {
  return {a.best > b.best ? a.best : b.best, a.hash + b.hash};
}
__device__ SamplePart warp_join(SamplePart part) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    part = join(part, {__shfl_xor_sync(kAllLanes, part.best, offset), __shfl_xor_sync(kAllLanes, part.hash, offset)});
  }
  return part;
}

/// Called by all threads: thread i handles recent token i. Returns the difference between the hash of the original
/// logits and that of the changed ones.
__device__ uint64_t penalise_repetition(const StepRow& row, float* logits, int begin, int end) {
  const float penalty = row.sampler.repetition_penalty;
  const int i = static_cast<int>(threadIdx.x);
  if (penalty == 1.0f || row.forced != 0 || i >= row.recent.kept()) return 0;
  const int token = row.recent.tokens[i];
  if (token < begin || token >= end) return 0;
  // A token that occurs several times is penalised once.
  for (int j = 0; j < i; ++j)
    if (row.recent.tokens[j] == token) return 0;
  const float before = logits[token];
  const float after = before > 0 ? __fdiv_rn(before, penalty) : __fmul_rn(before, penalty);
  logits[token] = after;
  const uint32_t index = static_cast<uint32_t>(token);
  return hash_term(index, __float_as_uint(before)) - hash_term(index, __float_as_uint(after));
}

/// Called by all threads, with the mask of a row: makes NaN of the logits outside the mask. Returns a difference as
/// penalise_repetition() does. The words are staged because each read of host memory takes its time.
__device__ uint64_t mask_tokens(const uint32_t* mask, float* logits, int begin, int end) {
  constexpr int kStagedTokens = kFindThreads * kMaskTokens;
  __shared__ uint32_t words[kFindThreads];
  uint64_t difference = 0;
  for (int first = begin - begin % kMaskTokens; first < end; first += kStagedTokens) {
    __syncthreads();
    const int own = static_cast<int>(threadIdx.x);
    if (first + own * kMaskTokens < end) words[own] = __ldcv(mask + first / kMaskTokens + own);  // as forced tokens
    __syncthreads();
    for (int token = max(first, begin) + own; token < min(first + kStagedTokens, end); token += kFindThreads) {
      const int i = token - first;
      if ((words[i / kMaskTokens] >> (i % kMaskTokens) & 1) != 0) continue;
      const uint32_t index = static_cast<uint32_t>(token);
      difference += hash_term(index, __float_as_uint(logits[token])) - hash_term(index, kNanBits);
      logits[token] = __uint_as_float(kNanBits);
    }
  }
  return difference;
}

/// Block (part, row): penalises, masks and hashes its part of the logits, finds the best.
__global__ void __launch_bounds__(kFindThreads)
    find_best(float* all_logits, int64_t stride, int vocabulary, int token_bits, const StepRow* steps,
              const uint32_t* masks, int64_t mask_stride, SamplePart* parts) {
  __shared__ SamplePart of_warp[kFindThreads / kWarp];
  wait_for_inputs();
  let_next_start();
  const StepRow& row = steps[blockIdx.y];
  if (row.active == 0) return;
  float* const logits = all_logits + blockIdx.y * stride;
  const int size = divide_up(vocabulary, static_cast<int>(gridDim.x));
  const int begin = static_cast<int>(blockIdx.x) * size;
  const int end = min(begin + size, vocabulary);

  uint64_t hash = penalise_repetition(row, logits, begin, end);
  __syncthreads();
  if (row.masked != 0 && row.forced == 0) {
    hash += mask_tokens(masks + blockIdx.y * mask_stride, logits, begin, end);
    __syncthreads();
  }
  uint32_t best_key = 0;
  int best_token = 0;
#pragma unroll 4
  for (int i = begin + static_cast<int>(threadIdx.x); i < end; i += kFindThreads) {
    const float logit = logits[i];
    hash += hash_term(static_cast<uint32_t>(i), __float_as_uint(logit));
    const uint32_t key = key_of(logit);
    if (key > best_key) {
      best_key = key;
      best_token = i;
    }
  }
  const SamplePart part = warp_join({best_key == 0 ? 0 : order_of(best_key, best_token, token_bits), hash});
  if (lane_index() == 0) of_warp[warp_index()] = part;
  __syncthreads();
  if (threadIdx.x != 0) return;
  SamplePart all = part;
  for (int i = 1; i < kFindThreads / kWarp; ++i) all = join(all, of_warp[i]);
  parts[int64_t{blockIdx.y} * gridDim.x + blockIdx.x] = all;
}

/// A range of the order in which the sum passes its goal: words low .. high.
struct Range {
  uint64_t low = 0, high = 0;
  uint64_t sum_above = 0;  // sum over all candidates before it
  uint32_t count_above = 0;
  uint32_t count = 0;  // number of candidates in it
};

enum class Goal { kTopK, kTopP, kDraw };

/// Shared memory of a block that samples.
struct Room {
  uint32_t count[kBins], weight_low[kBins], weight_high[kBins];  // the two halves of weights
  uint64_t powers[kPowers];
  uint64_t list[kListRoom];  // order words
  uint64_t near_order[kNearRoom], near_weight[kNearRoom];
  uint64_t warp_sum[kThreads / kWarp];
  uint32_t warp_count[kThreads / kWarp];
  Weighing weighing;
  uint64_t cut;       // order word of the last kept candidate
  uint64_t goal_sum;  // 0: beyond the total
  uint64_t sum_above;
  uint32_t count_above, bin_count;
  int bin;
  uint32_t bounds[2];
  int list_count;  // < 0: there is no list
  int gathered;
};

/// Common data of all threads of a block about its row.
struct Task {
  const float* logits;
  int vocabulary;
  int token_bits;
  int unit_bits;
  uint32_t largest_key;
  float largest;
};

/// Calls visit(order word, logit) for every kept candidate, each in one thread.
template <class Visit>
__device__ void visit_candidates(const Task& task, const Room& room, Visit visit) {
  constexpr int kAtOnce = 4;
  const uint64_t cut = room.cut;
  for (int i = static_cast<int>(threadIdx.x); i < room.list_count; i += kThreads) {
    const uint64_t order = room.list[i];
    if (order >= cut) visit(order, logit_of(key_in(order, task.token_bits)));
  }
  if (room.list_count >= 0) return;
  for (int first = static_cast<int>(threadIdx.x); first < task.vocabulary; first += kAtOnce * kThreads) {
    float logits[kAtOnce];
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      const int i = first + j * kThreads;
      logits[j] = i < task.vocabulary ? task.logits[i] : __uint_as_float(kNanBits);
    }
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      const uint32_t key = key_of(logits[j]);
      const uint64_t order = order_of(key, first + j * kThreads, task.token_bits);
      if (key != 0 && order >= cut) visit(order, logits[j]);
    }
  }
}

/// Bins of the first histogram: of equal width, never falling as logits fall.
__device__ int first_bin(float logit, float largest) {
  return static_cast<int>(fminf(__fmul_rn(__fsub_rn(largest, logit), kBinsPerLogit), kBins - 1));
}

/// Returns the smallest key whose bin lies before `limit`; largest_key + 1 if there is none.
__device__ uint32_t smallest_key_before(int limit, const Task& task) {
  uint32_t low = kLowestKey, high = task.largest_key + 1;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (first_bin(logit_of(middle), task.largest) < limit)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

__device__ void clear_bins(Room& room) {
  for (int i = static_cast<int>(threadIdx.x); i < kBins; i += kThreads)
    room.count[i] = room.weight_low[i] = room.weight_high[i] = 0;
}

__device__ void add_to_bin(Room& room, int bin, uint64_t weight) {
  atomicAdd(&room.count[bin], 1u);
  if (weight == 0) return;
  const uint32_t low = static_cast<uint32_t>(weight);
  const uint32_t before = atomicAdd(&room.weight_low[bin], low);
  const uint32_t high = static_cast<uint32_t>(weight >> 32) + (before + low < before ? 1u : 0u);
  if (high != 0) atomicAdd(&room.weight_high[bin], high);
}

/// Returns the sum that the search must reach, of `total`; 0 if nothing is cut.
__device__ uint64_t goal_sum(Goal goal, const StepRow& row, uint64_t total) {
  if (goal == Goal::kTopK) {
    const uint64_t wanted = static_cast<uint64_t>(row.sampler.top_k);
    return wanted < total ? wanted : 0;
  }
  if (goal == Goal::kTopP) {
    const uint64_t wanted = __double2ull_ru(__dmul_rn(static_cast<double>(row.sampler.top_p), __ull2double_rn(total)));
    return wanted < 1 ? 1 : wanted < total ? wanted : total;
  }
  // The first sum above total * random / 2^kRandomBits.
  const uint64_t random = random_bits(row.sampler.seed, row.drawn_count);
  return __umul64hi(random << (64 - kRandomBits), total) + 1;
}

/// Finds the bin in which the sum passes the goal, from `range.sum_above` on; the result is in the room. Starts after a
/// barrier and ends with one.
__device__ void choose_bin(Goal goal, const StepRow& row, bool first, const Range& range, Room& room) {
  const int bin = 2 * static_cast<int>(threadIdx.x);
  uint64_t sums[2];
  for (int i = 0; i < 2; ++i)
    sums[i] = goal == Goal::kTopK ? room.count[bin + i]
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
  if (first && threadIdx.x == kThreads - 1) room.goal_sum = goal_sum(goal, row, sum);
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
__device__ void enter_bin(const Room& room, Range& range) {
  range.sum_above = room.sum_above;
  range.count_above = room.count_above;
  range.count = room.bin_count;
}

/// Writes the few candidates up to the end of the range to the list.
__device__ void make_list(const Task& task, const Range& range, Room& room) {
  visit_candidates(task, room, [&](uint64_t order, float) {
    if (order >= range.low) room.list[atomicAdd(&room.gathered, 1)] = order;
  });
  __syncthreads();
  if (threadIdx.x == 0) {
    room.list_count = room.gathered;
    room.gathered = 0;
  }
  __syncthreads();
}

/// Finds, among the few candidates in the range, the one with which the sum reaches the goal.
template <class Weigh>
__device__ void cut_near(const Task& task, const Range& range, Room& room, Weigh weigh) {
  visit_candidates(task, room, [&](uint64_t order, float logit) {
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
    if (sum >= room.goal_sum && sum - room.near_weight[threadIdx.x] < room.goal_sum) room.cut = own;
  }
  __syncthreads();
}

/// Moves room.cut to the first candidate, in the order, with which the sum of counts or weights of those kept so far
/// reaches the goal. Starts and ends at a barrier.
__device__ void search(Goal goal, const Task& task, const StepRow& row, Room& room) {
  if (threadIdx.x == 0) {
    room.gathered = 0;
    room.weighing = make_weighing(task.largest, goal == Goal::kDraw ? row.sampler.temperature : 1.0f, task.unit_bits);
  }
  clear_bins(room);
  __syncthreads();
  const bool counts = goal == Goal::kTopK;
  const auto weigh = [&](float logit) -> uint64_t { return counts ? 1 : weight_of(logit, room.weighing, room.powers); };
  const auto binned_weight = [&](float logit) -> uint64_t { return counts ? 0 : weigh(logit); };
  visit_candidates(task, room, [&](uint64_t, float logit) {
    add_to_bin(room, first_bin(logit, task.largest), binned_weight(logit));
  });
  __syncthreads();
  Range range;
  choose_bin(goal, row, true, range, room);
  if (room.goal_sum == 0) return;
  enter_bin(room, range);

  // The logits of a bin are adjacent, so its ends in the order can be found without looking at candidates.
  if (threadIdx.x < 2)
    room.bounds[threadIdx.x] = smallest_key_before(room.bin + 1 - static_cast<int>(threadIdx.x), task);
  __syncthreads();
  range.low = uint64_t{room.bounds[0]} << task.token_bits;
  range.high = (uint64_t{room.bounds[1]} << task.token_bits) - 1;
  if (range.low < room.cut) range.low = room.cut;
  if (room.list_count < 0 && range.count_above + range.count <= kListRoom) make_list(task, range, room);

  while (range.count > kNearRoom) {
    const int bits = 64 - __clzll(static_cast<long long>(range.high - range.low));
    const int shift = bits > kBinBits ? bits - kBinBits : 0;
    clear_bins(room);
    __syncthreads();
    visit_candidates(task, room, [&](uint64_t order, float logit) {
      if (order >= range.low && order <= range.high)
        add_to_bin(room, static_cast<int>((range.high - order) >> shift), binned_weight(logit));
    });
    __syncthreads();
    choose_bin(goal, row, false, range, room);
    enter_bin(room, range);
    range.high -= static_cast<uint64_t>(room.bin) << shift;
    const uint64_t most = (uint64_t{1} << shift) - 1;
    if (range.high - range.low > most) range.low = range.high - most;
  }
  cut_near(task, range, room, weigh);
}

/// Called by all threads: initialises the room for searches, with every candidate kept. Ends with a barrier.
__device__ void open_room(Room& room) {
  for (int i = static_cast<int>(threadIdx.x); i < kPowers; i += kThreads) room.powers[i] = kPowerTable.values[i];
  if (threadIdx.x == 0) {
    room.cut = 0;
    room.list_count = -1;
  }
  __syncthreads();
}

/// Called by all threads of the block; kept logits are finite or minus infinity.
__device__ int sample_token(const Task& task, const StepRow& row, Room& room) {
  const SamplerParams& params = row.sampler;
  open_room(room);
  for (const Goal goal : {Goal::kTopK, Goal::kTopP, Goal::kDraw}) {
    if (goal == Goal::kTopK && params.top_k <= 0) continue;
    if (goal == Goal::kTopP && !(params.top_p < 1)) continue;
    if (goal == Goal::kDraw && params.min_p > 0) {
      if (threadIdx.x == 0) {
        const float least = static_cast<float>(task.largest + log(static_cast<double>(params.min_p)));
        const uint64_t lowest = uint64_t{key_of(least)} << task.token_bits;
        if (room.cut < lowest) room.cut = lowest;
      }
      __syncthreads();
    }
    search(goal, task, row, room);
  }
  return token_of(room.cut, task.token_bits);
}

/// Called by all threads; one of them returns the result, the log-probability of `token` at temperature 1, among all
/// logits; the largest one is a number. Integers are added, so that the order of additions does not matter.
__device__ float log_probability(const Task& task, int token, Room& room) {
  const float logit = task.logits[token];
  if (isinf(task.largest)) return logit == task.largest ? 0.0f : -INFINITY;
  if (isnan(logit)) return -INFINITY;
  if (threadIdx.x == 0) room.weighing = make_weighing(task.largest, 1.0f, task.unit_bits);
  open_room(room);
  uint64_t sum = 0;
  visit_candidates(task, room, [&](uint64_t, float other) { sum += weight_of(other, room.weighing, room.powers); });
  for (int offset = kWarp / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(kAllLanes, sum, offset);
  if (lane_index() == 0) room.warp_sum[warp_index()] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return 0;
  for (int i = 1; i < kThreads / kWarp; ++i) sum += room.warp_sum[i];
  const double total = static_cast<double>(sum) / static_cast<double>(1LL << task.unit_bits);
  return static_cast<float>(static_cast<double>(logit) - static_cast<double>(task.largest) - log(total));
}

/// Block b: row b's token from its parts and, if the row samples, from its logits.
__global__ void __launch_bounds__(kThreads)
    choose_tokens(const float* all_logits, int64_t stride, int vocabulary, int token_bits, const SamplePart* parts,
                  int parts_per_row, StepRow* steps, const KvRun* tiles, int64_t tiles_per_row, StepResult* results,
                  int64_t result_stride, const int32_t* forced, int64_t forced_stride) {
  __shared__ Room room;
  wait_for_inputs();
  let_next_start();
  const int64_t b = blockIdx.x;
  StepRow& row = steps[b];
  if (row.active == 0) return;
  SamplePart best{};  // every warp computes it
  for (int i = lane_index(); i < parts_per_row; i += kWarp) best = join(best, parts[b * parts_per_row + i]);
  best = warp_join(best);

  int token = best.best == 0 ? kNoTokenSampled : token_of(best.best, token_bits);
  const uint32_t largest_key = key_in(best.best, token_bits);
  const float largest = logit_of(largest_key);
  // As many bits as fit the sum of all weights; more than 48 have no effect.
  const int unit_bits = min(48, __clz(vocabulary) + 32);
  const Task task{all_logits + b * stride, vocabulary, token_bits, unit_bits, largest_key, largest};
  StepResult result;
  int next;
  if (row.forced != 0) {
    next = __ldcv(forced + row.step % kResultSteps * forced_stride + b);  // the host writes between steps
    __syncthreads();                                                      // before the row moves on
    if (token >= 0) result.log_probability = log_probability(task, next, room);
  } else {
    // Differences to an infinite logit are NaN.
    if (token >= 0 && row.sampler.temperature != 0 && row.sampler.top_k != 1 && !isinf(largest))
      token = sample_token(task, row, room);
    next = max(token, 0);
  }
  if (threadIdx.x != 0) return;
  result.token = token;
  result.logits_hash = best.hash;
  results[row.step % kResultSteps * result_stride + b] = result;
  move_on(row, next, tiles == nullptr ? nullptr : tiles + b * tiles_per_row);
  __threadfence_system();  // the host may read the result as soon as the step is done
}

}  // namespace

void sample_tokens(const SampleTokensArgs& args, Queue& queue) {
  const int64_t rows = args.logits.rows;
  if (rows == 0) return;
  if (args.scratch.rows * args.scratch.cols < sample_scratch_bytes(rows, args.logits.cols, queue.traits()))
    return queue.fail(OCELLUS_FAIL(Code::kInternal, "sample_tokens: the scratch memory is too small"));
  const int vocabulary = static_cast<int>(args.logits.cols);
  const int token_bits = std::bit_width(static_cast<unsigned>(vocabulary - 1));
  const int parts_per_row = static_cast<int>(sample_parts(rows, vocabulary));
  SamplePart* const parts = reinterpret_cast<SamplePart*>(args.scratch.data);
  launch<find_best>(
      queue, "sample_tokens",
      {.grid = dim3(static_cast<unsigned>(parts_per_row), static_cast<unsigned>(rows)), .threads = kFindThreads},
      args.logits.data, args.logits.stride, vocabulary, token_bits, args.steps, args.masks, args.mask_stride, parts);
  launch<choose_tokens>(queue, "sample_tokens", {.grid = dim3(static_cast<unsigned>(rows)), .threads = kThreads},
                        args.logits.data, args.logits.stride, vocabulary, token_bits, parts, parts_per_row, args.steps,
                        args.advance ? args.tiles : nullptr, args.tiles_per_row, args.results, args.result_stride,
                        args.forced, args.forced_stride);
}

}  // namespace cuda
}  // namespace ocellus

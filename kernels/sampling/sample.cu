// Two kernels: the first changes and hashes the logits and finds the best, by many blocks; the second samples by
// searches among a row's candidates (sample_search.cuh), if the row needs it.
#include <bit>

#include "kernels/backends.h"
#include "kernels/base/hash_term.h"
#include "kernels/sampling/adjust_logit.h"
#include "kernels/sampling/sample.h"
#include "kernels/sampling/sample_search.cuh"

namespace ocellus {
namespace cuda {
namespace {

constexpr int kFindThreads = 256;
static_assert(kMostLogitBiases <= kFindThreads && kRecentTokens <= kFindThreads);

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

/// Returns the difference between the hash of an original logit and that of the changed one.
__device__ uint64_t hash_change(int token, float before, float after) {
  const uint32_t index = static_cast<uint32_t>(token);
  return hash_term(index, __float_as_uint(before)) - hash_term(index, __float_as_uint(after));
}

/// Called by all threads: thread i handles bias i, then the recent token of age i. Returns the sum of hash_change()
/// over its changes. Ends with a barrier.
__device__ uint64_t adjust_logits(const StepRow& row, float* logits, int begin, int end) {
  const SamplerParams& params = row.sampler;
  const int i = static_cast<int>(threadIdx.x);
  uint64_t difference = 0;
  const auto change = [&](int token, auto changed) {
    if (token < begin || token >= end) return;
    const float before = logits[token], after = changed(before);
    logits[token] = after;
    difference += hash_change(token, before, after);
  };
  if (params.biases.count > 0) {
    if (i < params.biases.count)
      change(params.biases.tokens[i], [&](float logit) { return __fadd_rn(logit, params.biases.values[i]); });
    __syncthreads();
  }
  // Only the newest occurrence of a token changes its logit.
  if (params.penalties.any() && i < row.recent.kept() && is_newest(row.recent, i))
    change(recent_token(row.recent, i), [&](float logit) { return penalised(logit, params.penalties, row.recent, i); });
  __syncthreads();
  return difference;
}

/// Called by all threads, with the mask of a row: makes NaN of the logits outside the mask. Returns differences as
/// adjust_logits() does. The words are staged because each read of host memory takes its time.
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
      difference += hash_change(token, logits[token], __uint_as_float(kNanBits));
      logits[token] = __uint_as_float(kNanBits);
    }
  }
  return difference;
}

/// Block (part, row): adjusts, masks and hashes its part of the logits, finds the best.
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

  uint64_t hash = row.forced == 0 ? adjust_logits(row, logits, begin, end) : 0;
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

/// Drops logits more than this number of standard deviations below the largest. Starts and ends with a barrier.
__device__ __noinline__ void cut_sigmas(float sigmas, Task task, Room& room) {
  GapSums sums;
  visit_candidates(task, room, [&](uint64_t, float logit) {
    if (!isinf(logit)) sums.add(gap_units(logit, task.largest));
  });
  for (uint64_t* const sum : {&sums.count, &sums.sum, &sums.squares_high, &sums.squares_low})
    *sum = block_sum(*sum, room);
  if (threadIdx.x == 0)
    room.cut = uint64_t{key_of(least_in_sigmas(task.largest, sigmas, log(sums.variance())))} << task.token_bits;
  __syncthreads();
}

/// Returns weight * (largest - logit); no weight is left where that exceeds 64.
__device__ uint64_t weighted_gap(uint64_t weight, float logit, float largest) {
  if (weight == 0) return 0;
  const auto fixed = [](float x) { return static_cast<uint64_t>(__float2ll_rn(__fmul_rn(x, 0x1p32f))); };
  const uint64_t gap = fixed(largest) - fixed(logit);
  return __umul64hi(weight, gap) << 32 | (weight * gap) >> 32;
}

/// Keeps the candidates nearest to the mean surprisal, that is, to the mean logit, that make up `share`. The others are
/// struck from the list or, if there is none, from the logits. Returns the new largest key. Starts and ends with a
/// barrier.
__device__ __noinline__ uint32_t keep_typical(float share, Task task, Room& room) {
  if (threadIdx.x == 0) room.weighing = make_weighing(task.largest, 1.0f, task.unit_bits);
  __syncthreads();
  uint64_t total = 0, gaps = 0;
  visit_candidates(task, room, [&](uint64_t, float logit) {
    const uint64_t weight = weight_of(logit, room.weighing, room.powers);
    total += weight;
    gaps += weighted_gap(weight, logit, task.largest);
  });
  total = block_sum(total, room);
  gaps = block_sum(gaps, room);
  if (threadIdx.x == 0) {
    room.centre = typical_centre(task.largest, __ull2double_rn(gaps) / __ull2double_rn(total));
    room.largest_key = 0;
  }
  search<true>({Goal::kShare, 0, share, 1.0f}, task, room);

  uint32_t largest_key = 0;
  const auto keeps = [&](uint64_t word, float logit) {
    return word >= room.cut && Order<true>{task, room}.word(word, logit) >= room.near_cut;
  };
  for (int i = static_cast<int>(threadIdx.x); i < room.list_count; i += kSearchThreads) {
    const uint32_t key = key_in(room.list[i], task.token_bits);
    if (keeps(room.list[i], logit_of(key)))
      largest_key = max(largest_key, key);
    else
      room.list[i] = 0;
  }
  for (int i = static_cast<int>(threadIdx.x); room.list_count < 0 && i < task.vocabulary; i += kSearchThreads) {
    const uint32_t key = key_of(task.logits[i]);
    if (key != 0 && keeps(order_of(key, i, task.token_bits), task.logits[i]))
      largest_key = max(largest_key, key);
    else
      task.logits[i] = __uint_as_float(kNanBits);
  }
  atomicMax(&room.largest_key, largest_key);
  __syncthreads();
  if (threadIdx.x == 0) room.cut = 1;  // below every candidate
  __syncthreads();
  return room.largest_key;
}

/// Called by all threads of the block; kept logits are finite or minus infinity.
__device__ int sample_token(Task task, const StepRow& row, Room& room) {
  const SamplerParams& params = row.sampler;
  open_room(room);
  if (params.top_n_sigma > 0) cut_sigmas(params.top_n_sigma, task, room);
  for (Goal goal : {Goal{Goal::kCount, static_cast<uint32_t>(params.top_k), 0, 1.0f},
                    Goal{Goal::kShare, 0, params.top_p, 1.0f}, Goal{Goal::kDraw, 0, 0, params.temperature}}) {
    if (goal.kind == Goal::kCount && params.top_k <= 0) continue;
    if (goal.kind == Goal::kShare && params.typical_p < 1) {
      task.largest_key = keep_typical(params.typical_p, task, room);
      task.largest = logit_of(task.largest_key);
    }
    if (goal.kind == Goal::kShare && !(params.top_p < 1)) continue;
    if (goal.kind == Goal::kDraw) goal.number = random_bits(params.seed, row.drawn_count);
    if (goal.kind == Goal::kDraw && params.min_p > 0) {
      if (threadIdx.x == 0) {
        const float least = static_cast<float>(task.largest + log(static_cast<double>(params.min_p)));
        const uint64_t lowest = uint64_t{key_of(least)} << task.token_bits;
        if (room.cut < lowest) room.cut = lowest;
      }
      __syncthreads();
    }
    search(goal, task, room);
  }
  return token_of(room.cut, task.token_bits);
}

/// Called by all threads; returns the log-probability of `token` at temperature 1, among all logits; the largest one is
/// a number.
__device__ float log_probability(const Task& task, int token, Room& room) {
  open_room(room);
  return log_share(task.logits[token], task.largest, log_total(task, room));
}

/// Block b: row b's token from its parts and, if the row samples, from its logits.
__global__ void __launch_bounds__(kSearchThreads)
    choose_tokens(float* all_logits, int64_t stride, int vocabulary, int token_bits, const SamplePart* parts,
                  int parts_per_row, StepRow* steps, const KvRun* tiles, int64_t tiles_per_row, StepResult* results,
                  int64_t result_stride, const int32_t* forced, int64_t forced_stride, const LogitNotes* notes) {
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
  Task task{all_logits + b * stride, vocabulary, token_bits, unit_bits_of(vocabulary), largest_key, largest};
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
  if (notes != nullptr && row.sampler.top_tokens >= 0 && row.forced == 0 && token >= 0)
    result.log_probability = noted_log_probability(notes[b], row, task.logits, token);
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
  launch<choose_tokens>(queue, "sample_tokens", {.grid = dim3(static_cast<unsigned>(rows)), .threads = kSearchThreads},
                        args.logits.data, args.logits.stride, vocabulary, token_bits, parts, parts_per_row, args.steps,
                        args.tiles, args.tiles_per_row, args.results, args.result_stride, args.forced,
                        args.forced_stride, args.notes);
}

}  // namespace cuda
}  // namespace ocellus

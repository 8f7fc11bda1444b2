// One block for each row: finds the last of the top tokens by a search, then orders the few that come before it.
#include <bit>

#include "kernels/backends.h"
#include "kernels/sampling/sample_search.cuh"
#include "kernels/sampling/top_tokens.h"

namespace ocellus {
namespace cuda {
namespace {

static_assert(kMostTopTokens <= kWarp && kMostLogitBiases <= kSearchThreads && kRecentTokens <= kSearchThreads);

/// Called by all threads; returns the largest key, 0 if no logit is a number.
__device__ uint32_t find_largest_key(const Task& task, Room& room) {
  if (threadIdx.x == 0) room.largest_key = 0;
  __syncthreads();
  uint32_t largest_key = 0;
  visit_candidates(task, room, [&](uint64_t, float logit) { largest_key = max(largest_key, key_of(logit)); });
  atomicMax(&room.largest_key, largest_key);
  __syncthreads();
  return room.largest_key;
}

/// Called by all threads: lists the few candidates that the room keeps, in order.
__device__ void list_kept(const Task& task, double total, Room& room, TopTokens& top) {
  if (threadIdx.x == 0) room.gathered = 0;
  __syncthreads();
  visit_candidates(task, room, [&](uint64_t order, float) { room.near_order[atomicAdd(&room.gathered, 1)] = order; });
  __syncthreads();
  const int count = room.gathered;
  const int i = static_cast<int>(threadIdx.x);
  if (i == 0) top.count = count;
  if (i >= count) return;
  const uint64_t own = room.near_order[i];
  int before = 0;
  for (int j = 0; j < count; ++j) before += room.near_order[j] > own ? 1 : 0;
  top.tokens[before] = token_of(own, task.token_bits);
  top.log_probabilities[before] = log_share(logit_of(key_in(own, task.token_bits)), task.largest, total);
}

__global__ void __launch_bounds__(kSearchThreads)
    list_top(float* all_logits, int64_t stride, int vocabulary, int token_bits, const StepRow* steps, TopTokens* tops,
             int64_t top_stride, LogitNotes* all_notes) {
  __shared__ Room room;
  wait_for_inputs();
  let_next_start();
  const int64_t b = blockIdx.x;
  const StepRow& row = steps[b];
  const int wanted = row.sampler.top_tokens;
  if (row.active == 0 || wanted < 0) return;
  Task task{all_logits + b * stride, vocabulary, token_bits, unit_bits_of(vocabulary), 0, 0};
  LogitNotes& notes = all_notes[b];
  if (threadIdx.x < max(kMostLogitBiases, kRecentTokens))
    note_logits(row, task.logits, vocabulary, static_cast<int>(threadIdx.x), notes);
  open_room(room);
  task.largest_key = find_largest_key(task, room);
  task.largest = logit_of(task.largest_key);
  TopTokens& top = tops[row.step % kResultSteps * top_stride + b];
  if (task.largest_key == 0 || wanted == 0) {
    if (threadIdx.x == 0) top.count = 0;
    if (task.largest_key == 0) return;
  }
  const double total = log_total(task, room);
  if (threadIdx.x == 0) {
    notes.largest = task.largest;
    notes.log_total = total;
  }
  if (wanted == 0) return;
  search({Goal::kCount, static_cast<uint32_t>(wanted), 0, 1.0f}, task, room);
  // Fewer candidates than wanted: nothing is cut.
  list_kept(task, total, room, top);
  __threadfence_system();  // the host may read the list as soon as the step is done
}

}  // namespace

void list_top_tokens(const TopTokensArgs& args, Queue& queue) {
  if (args.logits.rows == 0) return;
  const int vocabulary = static_cast<int>(args.logits.cols);
  launch<list_top>(queue, "list_top_tokens",
                   {.grid = dim3(static_cast<unsigned>(args.logits.rows)), .threads = kSearchThreads}, args.logits.data,
                   args.logits.stride, vocabulary, std::bit_width(static_cast<unsigned>(vocabulary - 1)), args.steps,
                   args.tops, args.top_stride, args.notes);
}

}  // namespace cuda
}  // namespace ocellus

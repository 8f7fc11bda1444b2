#include "kernels/backends.h"
#include "kernels/base/launch.cuh"
#include "kernels/sampling/guess_rows.h"
#include "kernels/sampling/sample_row.h"

namespace ocellus {
namespace cuda {
namespace {

constexpr int kThreads = 128;

__device__ void copy_runs(KvRun* runs, int64_t per_row, int64_t from, int64_t to) {
  constexpr int64_t kUnits = sizeof(KvRun) / sizeof(uint4);
  const auto* source = reinterpret_cast<const uint4*>(runs + from * per_row);
  auto* target = reinterpret_cast<uint4*>(runs + to * per_row);
  for (int64_t i = threadIdx.x; i < per_row * kUnits; i += kThreads) target[i] = source[i];
}

/// A block fills one row from its session's own one, which no block changes.
__global__ void fill_guessed_row(const __grid_constant__ GuessRowsArgs a) {
  wait_for_inputs();
  let_next_start();
  const int row = a.begin + static_cast<int>(blockIdx.x);
  const GuessedRows* const guesses = guesses_of(a, row);
  if (guesses == nullptr) {
    if (threadIdx.x == 0) a.steps[row].active = 0;
    return;
  }
  const int of = guesses->of;
  copy_runs(a.tiles, a.tiles_per_row, of, row);
  const auto* source = reinterpret_cast<const uint32_t*>(a.steps + of);
  auto* target = reinterpret_cast<uint32_t*>(a.steps + row);
  for (unsigned i = threadIdx.x; i < sizeof(StepRow) / sizeof *source; i += kThreads) target[i] = source[i];
  copy_runs(a.local_tiles, a.local_tiles_per_row, of, row);
  __syncthreads();
  if (threadIdx.x != 0) return;
  if (a.ring_starts != nullptr) a.ring_starts[row] = a.ring_starts[of];
  StepRow& guess = a.steps[row];
  for (int i = guesses->first; i <= row; ++i) move_on(guess, a.tokens[i], a.tiles + of * a.tiles_per_row);
  guess.step = a.steps[of].step;
}

}  // namespace

void guess_rows(const GuessRowsArgs& args, Queue& queue) {
  if (args.begin >= args.end) return;
  launch<fill_guessed_row>(queue, "guess_rows",
                           {.grid = dim3(static_cast<unsigned>(args.end - args.begin)), .threads = kThreads}, args);
}

}  // namespace cuda
}  // namespace ocellus

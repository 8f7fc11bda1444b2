#include "kernels/backends.h"
#include "kernels/base/device_math.cuh"
#include "kernels/base/launch.cuh"
#include "kernels/cache/refine_scores.h"

namespace ocellus {
namespace cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kRowsPerBlock = kThreads / kWarp;

/// Returns the norm in every lane.
__device__ float value_norm(const KvLayerRows& rows, int64_t row, int64_t head, int lane) {
  const __half* values = reinterpret_cast<const __half*>(rows.values + rows.at(row, head));
  float squares = 0;
  for (int e = lane; e < rows.head_dim; e += kWarp) {
    const float value = __half2float(values[e]);
    squares += value * value;
  }
  return sqrtf(warp_sum(squares));
}

__device__ float& score_at(const RefineScoresArgs& args, int64_t head, int64_t row) {
  return args.scores.data[head * args.scores.stride + row];
}

/// A warp processes a row in all heads.
__global__ void refine(const __grid_constant__ RefineScoresArgs args) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t row = int64_t{blockIdx.x} * kRowsPerBlock + threadIdx.x / kWarp, heads = args.scores.rows;
  wait_for_inputs();
  let_next_start();
  if (row >= args.row_count) return;
  float sum = 0;
  for (int64_t g = 0; g < heads; ++g) {
    float score = args.random ? random_score(args.seed, g, row) : args.clear ? 0.0f : score_at(args, g, row);
    if (args.by_readers) score /= reader_count(args, row);
    if (args.by_values) score *= value_norm(args.rows, row, g, lane);
    if (args.text_first != nullptr && args.text_first[row] == 0) score += static_cast<float>(args.row_count);
    sum += score;
    __syncwarp();  // all lanes have read the score
    if (lane == 0) score_at(args, g, row) = score;
  }
  if (!args.mean && row >= args.first_rows) return;
  const float all = row < args.first_rows ? INFINITY : sum / static_cast<float>(heads);
  __syncwarp();
  for (int64_t g = lane; g < heads; g += kWarp) score_at(args, g, row) = all;
}

}  // namespace

void refine_scores(const RefineScoresArgs& args, Queue& queue) {
  if (args.row_count == 0) return;
  launch<refine>(queue, "refine_scores",
                 {.grid = static_cast<unsigned>(divide_up(args.row_count, kRowsPerBlock)), .threads = kThreads}, args);
}

}  // namespace cuda
}  // namespace ocellus

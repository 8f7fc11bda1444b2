// Tiled attention on compute capability 9.0: as attend_rows.cu, but warpgroups of 64 query rows share a tile, and their
// products run asynchronously: the scores of a stage are queued first, then the product with the values of the previous
// stage, and meanwhile the scores become weights. Needs code for sm_90a; for other targets the kernels are empty.
#include <algorithm>
#include <cmath>

#include "kernels/attention/attend_rows_fetch.cuh"
#include "kernels/attention/attend_rows_hopper.cuh"
#include "kernels/attention/attend_rows_scores.cuh"
#include "kernels/attention/attend_rows_warpgroups.cuh"
#include "kernels/attention/attend_rows_write.cuh"
#include "kernels/attention/attend_warpgroup.cuh"
#include "kernels/attention/attend_warpgroup_weights.cuh"
#include "kernels/base/launch.cuh"

namespace ocellus::cuda {
// Not anonymous: for empty kernels compilers would report all of it as unused.
namespace hopper {

/// As RowsTile, for heads of 64. A stage's keys and values lie as products can read them: a slot's eight 16-byte units
/// side by side, unit u of slot s at place u ^ s % 8.
struct WarpgroupTile {
  static constexpr int kDim = 64;
  static constexpr int kValueDim = kDim;
  static constexpr bool kHasRuns = false;
  static constexpr bool kListed = false;
  static constexpr int kGroups = 2;
  static constexpr int kBlocks = 2;  // at a time: as many as the registers allow
  static constexpr int kThreads = kGroups * kGroupThreads;
  static constexpr int kRowTiles = 1;
  static constexpr int kWarpRows = kFragment;
  static constexpr int kRows = kThreads / kWarp * kWarpRows;
  static constexpr int kSlots = 64;
  static constexpr int kPieces = kSlots / kTileSlots;
  static constexpr int kStride = kDim + 8;  // stride of queries and results
  static constexpr int kRowUnits = kDim / 8;
  static constexpr bool kSwizzled = true;
  static constexpr int kStage = 2 * kSlots * kDim;  // keys, then values
  // While a stage's scores are computed the values of the previous stage are read, and kAhead more stages arrive.
  static constexpr int kAhead = 2;
  static constexpr int kStages = kAhead + 2;
  static constexpr int kRing = 2 * kAhead + 1;
  static constexpr bool kKeepsQueries = true;  // they arrive through the memory that is needed last
  static constexpr int kQueryAt = (kStages - 1) * kStage;
  static constexpr int kHalves = kQueryAt + std::max(kStage, kRows* kStride);
  static constexpr int kSharedBytes = kHalves * 2;
  static_assert(kBlocks * (kSharedBytes + 1024) <= most_shared_bytes(90) + 1024);

  __device__ static int row_of_unit(int i) { return i / kRowUnits; }
  __device__ static int place_of_unit(int i) { return i % kRowUnits; }
  __device__ static int unit_offset(int row, int unit) { return row * 64 + (unit ^ row) % 8 * 8; }
};

template <class T>
__device__ uint32_t stage_address(const __half* stages, int stage) {
  return shared_address(stages + stage % T::kStages * T::kStage);
}

/// Waits until a stage has arrived for all, and all have finished the stage two before it.
template <class T>
__device__ void await_stage() {
  wait_for_copies<T::kAhead - 1>();
  show_copies_to_products();
  __syncthreads();
}

/// Begins to copy the stage kAhead stages later into memory that is no longer read.
template <class T>
__device__ void fetch_ahead(const RowsWork& work, const TilePlace& place, RingRun* ring, int stage, __half* stages) {
  const int later = stage + T::kAhead;
  if (later < place.stages_end) {
    fetch_stage<T>(work, place, ring, later, stages + later % T::kStages * T::kStage);
    fetch_runs<T>(work, later + T::kAhead, ring);
  }
  commit_copies();
}

template <class T>
__device__ void add_values(const TileWeights<T>& weights, uint32_t values, TileRows<T>& rows) {
#pragma unroll
  for (int k = 0; k < T::kPieces; ++k) add_product(rows.mixed[0], weights[k], value_factor<T>(values, k));
  commit_products();
}

template <class T>
__device__ void add_last_values(const TileWeights<T>& weights, uint32_t values, TileRows<T>& rows) {
  settle(rows.mixed[0]);
  begin_products();
  add_values<T>(weights, values, rows);
  wait_for_products<0>();
  settle(rows.mixed[0]);
}

/// Queues the scores of a stage and, after them, the sums of the values of the previous stage; computes the weights.
template <class T, bool kFirst>
__device__ void work_on(const RowsWork& work, const TilePlace& place, RingRun* ring, int stage, __half* stages,
                        TileRows<T>& rows, TileScores<T>& scores, TileWeights<T>& weights) {
  const uint32_t keys = stage_address<T>(stages, stage);
  settle(scores[0]);
  settle(rows.mixed[0]);
  begin_products();
#pragma unroll
  for (int k = 0; k < T::kDim / kFragment; ++k)
    multiply(scores[0], rows.queries[0][k], row_factor<T, T::kSlots>(keys, k), k > 0);
  commit_products();
  if constexpr (!kFirst) add_values<T>(weights, stage_address<T>(stages, stage - 1) + T::kStage, rows);
  fetch_ahead<T>(work, place, ring, stage, stages);
  wait_for_products<kFirst ? 0 : 1>();
  settle(scores[0]);

  const RingRun* runs = runs_of<T>(ring, stage);
  if (work.row_bias != nullptr) bias_stage<T>(work, stage, scores);
  if (!sees_all<T>(work, runs, stage, rows.least_limit)) mask_stage<T>(work, place, runs, stage, scores);
  take_weights<T, kFirst>(work.scale, rows, scores, weights);
}

/// Number of stages up to the last that any row of this warpgroup sees.
template <class T>
__device__ int group_stages(const RowsWork& work, const TilePlace& place) {
  const int group = static_cast<int>(threadIdx.x) / kGroupThreads;
  const int limit = limit_of(work, place, place.tile_row + (group + 1) * kGroupRows - 1);
  return min(stages_of<T>(work, limit), place.stages_end);
}

template <class T>
__global__ void __launch_bounds__(T::kThreads, T::kBlocks) attend_tile_hopper(const __grid_constant__ RowsWork work) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) std::byte shared[];
  __half* const stages = reinterpret_cast<__half*>(shared);
  RingRun* const ring = nullptr;  // no runs
  __half* const warp_queries = stages + T::kQueryAt + static_cast<int>(threadIdx.x) / kWarp * T::kWarpRows * T::kStride;
  const TilePlace place = find_place<T>(work, static_cast<int>(blockIdx.x));

  wait_for_inputs();
  let_next_start();
  fetch_queries<T>(work, place, stages + T::kQueryAt);
#pragma unroll
  for (int stage = 0; stage < 2 * T::kAhead; ++stage) fetch_runs<T>(work, stage, ring);
  if constexpr (T::kHasRuns) {
    commit_copies();
    wait_for_copies<0>();
    __syncthreads();
  }
#pragma unroll
  for (int stage = 0; stage < T::kAhead; ++stage) {
    if (stage < place.stages_end) fetch_stage<T>(work, place, ring, stage, stages + stage * T::kStage);
    commit_copies();
  }
  TileRows<T> rows;
  start_rows<T>(work, place, rows);
  TileScores<T> scores = {};
  TileWeights<T> weights;
  const int end = group_stages<T>(work, place);

  await_stage<T>();
  keep_queries<T>(warp_queries, rows);
  work_on<T, true>(work, place, ring, 0, stages, rows, scores, weights);
  // One loop for all warpgroups, so that they meet at one barrier: those whose rows see less continue fetching.
#pragma unroll 1
  for (int stage = 1; stage < place.stages_end; ++stage) {
    await_stage<T>();
    if (stage < end) {
      work_on<T, false>(work, place, ring, stage, stages, rows, scores, weights);
    } else {
      if (stage == end) add_last_values<T>(weights, stage_address<T>(stages, end - 1) + T::kStage, rows);
      fetch_ahead<T>(work, place, ring, stage, stages);
    }
  }
  if (end == place.stages_end) add_last_values<T>(weights, stage_address<T>(stages, end - 1) + T::kStage, rows);

  add_lane_sums<T>(rows);
  __syncthreads();  // the queries' memory may be a stage that other warps still read
  write_rows<T>(work, place, rows, warp_queries);
#endif
}

template <class T>
void launch_tiles(RowsWork work, Queue& queue) {
  work.tiles = static_cast<int>(divide_up(int64_t{work.rows} * work.group, T::kRows));
  work.stages_per_split = 1 << 30;
  launch<attend_tile_hopper<T>>(
      queue, "attend_rows",
      {.grid = static_cast<unsigned>(work.tiles * work.heads), .threads = T::kThreads, .shared_bytes = T::kSharedBytes},
      work);
}

}  // namespace hopper

bool attend_rows_hopper(const RowsWork& work, Queue& queue) {
#ifdef OCELLUS_HOPPER
  if (capability_of(queue) != 90) return false;
  if (attend_tile_dim(work.head_dim) != 64 || work.run_count > 0 || work.spans != nullptr)
    return attend_rows_warpgroups(work, queue);
  hopper::launch_tiles<hopper::WarpgroupTile>(work, queue);
  return true;
#endif
  static_cast<void>(work);
  static_cast<void>(queue);
  return false;
}

}  // namespace ocellus::cuda

// Tiled attention on compute capability 9.0, as FlashAttention-3 (Shah et al. 2024): one warpgroup copies keys and
// values, the others take 64 query rows each. Their products run asynchronously: the scores of a stage are queued
// first, then the product with the values of the previous stage, and meanwhile the scores become weights. They take
// turns at queueing, so that the weights of one are computed under the products of another. Needs code for sm_90a; for
// other targets the kernels are empty.
#include <algorithm>
#include <cmath>

#include "kernels/attention/attend_rows_scores.cuh"
#include "kernels/attention/attend_rows_warpgroups.cuh"
#include "kernels/attention/attend_rows_write.cuh"
#include "kernels/attention/attend_warpgroup.cuh"
#include "kernels/attention/attend_warpgroup_copy.cuh"
#include "kernels/attention/attend_warpgroup_weights.cuh"
#include "kernels/base/launch.cuh"

namespace ocellus::cuda {
// Not anonymous: for empty kernels compilers would report all of it as unused.
namespace warpgroups {

__device__ inline int group_of_thread() { return static_cast<int>(threadIdx.x) / kGroupThreads; }

/// A warpgroup's turn to queue products: barrier 1 + group of those that wait for theirs and the one that is done.
template <class T>
__device__ void await_turn() {
  wait_at(1 + group_of_thread(), 2 * kGroupThreads);
}
template <class T>
__device__ void pass_turn() {
  arrive_at(1 + (group_of_thread() + 1) % T::kGroups, 2 * kGroupThreads);
}

template <class T>
__device__ void queue_scores(typename T::Shared& shared, int at, TileScores<T>& scores) {
  const uint32_t queries = shared_address(shared.queries) + group_of_thread() * kGroupRows * (T::kSwizzled ? 128 : 16);
  const uint32_t keys = shared_address(shared.keys[at]);
#pragma unroll
  for (int k = 0; k < T::kDim / kFragment; ++k)
    multiply(scores[0], row_factor<T, T::kRows>(queries, k), row_factor<T, T::kSlots>(keys, k), k > 0);
  commit_products();
}

template <class T>
__device__ void queue_values(typename T::Shared& shared, int at, const TileWeights<T>& weights, TileRows<T>& rows) {
  const uint32_t values = shared_address(shared.values[at]);
#pragma unroll
  for (int k = 0; k < T::kPieces; ++k) add_product(rows.mixed[0], weights[k], value_factor<T>(values, k));
  commit_products();
}

/// True if all rows of the warp see all slots of a stage, whose runs are `complete`: all of it live, for all rows.
template <class T>
__device__ bool sees_stage(const RowsWork& work, int stage, bool complete, const TileRows<T>& rows) {
  const int own = own_row_of<T>(work, stage), end = own + T::kSlots;
  return end <= rows.least_limit && (own >= rows.largest_begin || end <= 0) && (own >= 0 || complete);
}

/// Queues the scores of a stage and, after them, the sums of the values of the previous stage; computes the weights.
template <class T, bool kFirst>
__device__ void work_on(const RowsWork& work, const TilePlace& place, typename T::Shared& shared, int stage,
                        const RingPlace<T>& before, const RingPlace<T>& here, TileRows<T>& rows, TileScores<T>& scores,
                        TileWeights<T>& weights) {
  await(shared.keys_full[here.at], here.phase);
  if constexpr (!kFirst) await(shared.values_full[before.at], before.phase);
  show_copies_to_products();
  await_turn<T>();
  settle(scores[0]);
  settle(rows.mixed[0]);
  begin_products();
  queue_scores<T>(shared, here.at, scores);
  if constexpr (!kFirst) queue_values<T>(shared, before.at, weights, rows);
  pass_turn<T>();
  wait_for_products<kFirst ? 0 : 1>();
  settle(scores[0]);

  if (work.row_bias != nullptr) bias_stage<T>(work, stage, scores);
  if (!sees_stage<T>(work, stage, shared.complete[here.at] != 0, rows))
    mask_stage<T>(work, place, shared.pieces[here.at], stage, scores);
  arrive(shared.keys_empty[here.at]);
  take_weights<T, kFirst>(work.scale, rows, scores, weights);
  if constexpr (!kFirst) arrive(shared.values_empty[before.at]);
}

template <class T>
__device__ void add_last_values(typename T::Shared& shared, const RingPlace<T>& last, const TileWeights<T>& weights,
                                TileRows<T>& rows) {
  await(shared.values_full[last.at], last.phase);
  show_copies_to_products();
  settle(rows.mixed[0]);
  begin_products();
  queue_values<T>(shared, last.at, weights, rows);
  wait_for_products<0>();
  settle(rows.mixed[0]);
  arrive(shared.values_empty[last.at]);
}

/// Divides by the sums and writes f16 rows, through the memory of the group's queries.
template <class T>
__device__ void write_group(const RowsWork& work, const TilePlace& place, __half* tile, const TileRows<T>& rows) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int first = static_cast<int>(threadIdx.x) / kWarp * T::kWarpRows;
  wait_at(1 + T::kGroups + group_of_thread(), kGroupThreads);  // all warps of the group have read them
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float factor = 1.0f / rows.sum[0][half];
    const int row = first + half * kMatrix + lane / 4;
#pragma unroll
    for (int n = 0; n < T::kValueDim / kMatrix; ++n)
      *reinterpret_cast<__half2*>(tile + T::template unit_offset<T::kRows>(row, n) + lane % 4 * 2) =
          round_half2(rows.mixed[0][n][2 * half] * factor, rows.mixed[0][n][2 * half + 1] * factor);
  }
  __syncwarp();
#pragma unroll 1
  for (int row = first + T::lane_row(); row < first + T::kWarpRows; row += T::kLaneRows) {
    if (place.tile_row + row >= place.rows) break;
    __half* const to = work.output + row_offset(work, place, place.tile_row + row, work.output_stride);
    for (int unit = T::lane_unit(); unit * 8 < work.head_dim; unit += T::kLaneUnits)
      *reinterpret_cast<uint4*>(to + unit * 8) =
          *reinterpret_cast<const uint4*>(tile + T::template unit_offset<T::kRows>(row, unit));
  }
  __syncwarp();
}

template <class T>
__device__ void work_on_tile(const RowsWork& work, const TilePlace& place, typename T::Shared& shared,
                             RingPlace<T>& ring) {
  TileRows<T> rows;
  start_rows<T>(work, place, rows);
  TileScores<T> scores = {};
  TileWeights<T> weights;
  work_on<T, true>(work, place, shared, place.stages_begin, ring, ring, rows, scores, weights);
#pragma unroll 1
  for (int stage = place.stages_begin + 1; stage < place.stages_end; ++stage) {
    const RingPlace<T> before = ring;
    ring.step();
    work_on<T, false>(work, place, shared, stage, before, ring, rows, scores, weights);
  }
  add_last_values<T>(shared, ring, weights, rows);
  ring.step();
  add_lane_sums<T>(rows);
  write_group<T>(work, place, shared.queries, rows);
}

template <class T>
__device__ void work_on_tiles(const RowsWork& work, typename T::Shared& shared) {
  RingPlace<T> ring;
  if (group_of_thread() == T::kGroups - 1) pass_turn<T>();
#pragma unroll 1
  for (int round = 0; tile_of_round(round) < work.tiles * work.heads; ++round) {
    TilePlace place = find_place<T>(work, tile_of_round(round));
    bound_place<T>(work, place);
    await(shared.queries_full, round & 1);
    work_on_tile<T>(work, place, shared, ring);
    arrive(shared.queries_empty);
  }
}

/// Workers arrive lane by lane: compute-sanitizer's racecheck does not see that a warp has met before one lane arrives
/// for all, which is no faster.
template <class T>
__device__ void start_barriers(typename T::Shared& shared) {
  for (int at = 0; at < T::kStages; ++at) {
    start_barrier(shared.keys_full[at], 2 * kGroupThreads);
    start_barrier(shared.values_full[at], kGroupThreads);
    start_barrier(shared.keys_empty[at], T::kWorkers);
    start_barrier(shared.values_empty[at], T::kWorkers);
  }
  start_barrier(shared.queries_full, kGroupThreads);
  start_barrier(shared.queries_empty, T::kWorkers);
}

template <class T>
__global__ void __launch_bounds__(T::kThreads, 1) attend_tile_warpgroups(const __grid_constant__ RowsWork work) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) std::byte memory[];
  typename T::Shared& shared = *reinterpret_cast<typename T::Shared*>(memory);
  if (threadIdx.x == 0) start_barriers<T>(shared);
  __syncthreads();
  wait_for_inputs();
  let_next_start();
  if (threadIdx.x >= T::kWorkers) {
    give_registers_up<T::kCopierRegisters>();
    copy_tiles<T>(work, shared);
  } else {
    take_registers<T::kWorkerRegisters>();
    work_on_tiles<T>(work, shared);
  }
#endif
}

template <int kDim, int kValueDim>
bool attend(RowsWork work, Queue& queue) {
  using T = WarpgroupTile<kDim, kValueDim>;
  work.tiles = static_cast<int>(divide_up(int64_t{work.rows} * work.group, T::kRows));
  work.stages_per_split = 1 << 30;
  const int blocks = std::min(work.tiles * work.heads, queue.cuda()->facts().multiprocessors);
  launch<attend_tile_warpgroups<T>>(
      queue, "attend_rows",
      {.grid = static_cast<unsigned>(blocks), .threads = T::kThreads, .shared_bytes = T::kSharedBytes}, work);
  return true;
}

}  // namespace warpgroups

bool attend_rows_warpgroups(const RowsWork& work, Queue& queue) {
#ifdef OCELLUS_HOPPER
  switch (attend_tile_dim(work.head_dim)) {
    case 64: return warpgroups::attend<64, 64>(work, queue);
    case 80:
      if (work.head_dim != 72) return false;
      return warpgroups::attend<80, 72>(work, queue);
    case 128: return warpgroups::attend<128, 128>(work, queue);
    case 256: return warpgroups::attend<256, 256>(work, queue);
    default: break;
  }
#endif
  static_cast<void>(work);
  static_cast<void>(queue);
  return false;
}

}  // namespace ocellus::cuda

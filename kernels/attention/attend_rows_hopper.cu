// Tiled attention on compute capability 9.0: as attend_rows.cu, but warpgroups of 64 query rows share a tile, and their
// products run asynchronously: the scores of a stage are queued first, then the product with the values of the previous
// stage, and meanwhile the scores become weights. Needs code for sm_90a; for other targets the kernels are empty.
#include <algorithm>
#include <cmath>

#include "kernels/attention/attend_rows_fetch.cuh"
#include "kernels/attention/attend_rows_hopper.cuh"
#include "kernels/attention/attend_rows_scores.cuh"
#include "kernels/attention/attend_rows_write.cuh"
#include "kernels/attention/attend_warpgroup.cuh"
#include "kernels/base/launch.cuh"

namespace ocellus::cuda {
// Not anonymous: for empty kernels compilers would report all of it as unused.
namespace hopper {

inline constexpr int kGroupThreads = 128;
inline constexpr int kGroupRows = 64;

/// As RowsTile. A stage's keys and values lie in one of two layouts that products can read, made of 16-byte units:
/// - swizzled: panels of 64 columns, a slot's eight units side by side, unit u of slot s at place u ^ s % 8
/// - plain: unit u of all slots, then unit u + 1 of all slots
template <int kDim_, int kValueDim_, bool kHasRuns_>
struct WarpgroupTile {
  static constexpr int kDim = kDim_;
  static constexpr int kValueDim = kValueDim_;
  static constexpr bool kHasRuns = kHasRuns_;
  static constexpr bool kListed = false;
  // Three warpgroups or two, one block at a time or two: as many as the registers allow.
  static constexpr int kGroups = kDim == 80 ? 3 : 2;
  static constexpr int kBlocks = kDim <= 64 ? 2 : 1;
  static constexpr int kThreads = kGroups * kGroupThreads;
  static constexpr int kRowTiles = 1;
  static constexpr int kWarpRows = kFragment;
  static constexpr int kRows = kThreads / kWarp * kWarpRows;
  static constexpr int kSlots = kDim < 128 ? 64 : 128;
  static constexpr int kPieces = kSlots / kTileSlots;
  static constexpr int kStride = kDim + 8;  // stride of queries and results
  static constexpr int kRowUnits = kDim / 8;
  static constexpr int kStage = 2 * kSlots * kDim;  // keys, then values
  // While a stage's scores are computed the values of the previous stage are read, and kAhead more stages arrive.
  static constexpr int kAhead = kDim < 128 ? 2 : 1;
  static constexpr int kStages = kAhead + 2;
  static constexpr int kRing = 2 * kAhead + 1;
  static constexpr bool kKeepsQueries = true;  // they arrive through the memory that is needed last
  static constexpr int kQueryAt = (kStages - 1) * kStage;
  static constexpr int kHalves = kQueryAt + std::max(kStage, kRows* kStride);
  static constexpr int kSharedBytes = kHalves * 2 + kRing * kPieces * static_cast<int>(sizeof(RingRun));
  static constexpr bool kSwizzled = kDim % 64 == 0;
  static constexpr int kPanel = kSlots * 64;
  static_assert(kBlocks * (kSharedBytes + 1024) <= most_shared_bytes(90) + 1024);
  static_assert(!kSwizzled || kStage % 1024 == 0);

  // Eight neighbouring threads copy into different banks: one slot's units if swizzled, else one unit of eight slots.
  __device__ static int row_of_unit(int i) { return kSwizzled ? i / kRowUnits : i / (8 * kRowUnits) * 8 + i % 8; }
  __device__ static int place_of_unit(int i) { return kSwizzled ? i % kRowUnits : i / 8 % kRowUnits; }
  __device__ static int unit_offset(int row, int unit) {
    return kSwizzled ? unit / 8 * kPanel + row * 64 + (unit ^ row) % 8 * 8 : (unit * kSlots + row) * 8;
  }
};

/// A descriptor: address, leading and stride offset in bytes, swizzling of 128 bytes or none. "Matrix descriptor
/// format" and "strides" in the PTX manual.
__host__ __device__ constexpr uint64_t descriptor_bits(int leading, int stride, bool swizzled) {
  return static_cast<uint64_t>(leading / 16) << 16 | static_cast<uint64_t>(stride / 16) << 32 |
         static_cast<uint64_t>(swizzled) << 62;
}

/// Columns 16 k .. of all keys of a stage, as the right factor of scores: eight slots and the next eight are a stride
/// apart, in plain layout the two units are a leading offset apart.
template <class T>
__device__ uint64_t key_factor(uint32_t keys, int k) {
  constexpr int kUnit = T::kSlots * 16;
  constexpr uint64_t kBits = T::kSwizzled ? descriptor_bits(16, 1024, true) : descriptor_bits(kUnit, 128, false);
  return kBits | (keys + (T::kSwizzled ? k / 4 * T::kPanel * 2 + k % 4 * 32 : 2 * k * kUnit)) / 16;
}

/// Slots 16 k .. of all values of a stage, as the right factor of weights, turned over. Swizzled: eight slots and the
/// next eight are a stride apart, panels a leading offset. Plain: eight slots and the next eight are a leading offset
/// apart, units a stride.
template <class T>
__device__ uint64_t value_factor(uint32_t values, int k) {
  constexpr int kUnit = T::kSlots * 16;
  constexpr uint64_t kBits =
      T::kSwizzled ? descriptor_bits(T::kPanel * 2, 1024, true) : descriptor_bits(128, kUnit, false);
  return kBits | (values + k * (T::kSwizzled ? 16 * 128 : 16 * 16)) / 16;
}

template <class T>
using TileWeights = uint32_t[T::kPieces][4];

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
  for (int k = 0; k < T::kPieces; ++k) multiply_add<true>(rows.mixed[0], weights[k], value_factor<T>(values, k), true);
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

/// Scores become weights, relative to the row's base.
template <class T>
__device__ void weigh(float scale, TileRows<T>& rows, TileScores<T>& scores) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float offset = minus_base(rows, 0, half);
    float sum[2] = {};
#pragma unroll
    for (int n = 0; n < T::kSlots / kMatrix; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float& score = scores[0][n][2 * half + i];
        score = exp2_of(fmaf(score, scale, offset));
        sum[i] += score;
      }
    }
    rows.sum[0][half] += sum[0] + sum[1];
  }
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
    multiply_add<false>(scores[0], rows.queries[0][k], key_factor<T>(keys, k), k > 0);
  commit_products();
  if constexpr (!kFirst) add_values<T>(weights, stage_address<T>(stages, stage - 1) + T::kStage, rows);
  fetch_ahead<T>(work, place, ring, stage, stages);
  wait_for_products<kFirst ? 0 : 1>();
  settle(scores[0]);

  const RingRun* runs = runs_of<T>(ring, stage);
  if (!sees_all<T>(work, runs, stage, rows.least_limit)) mask_stage<T>(work, place, runs, stage, scores);
  float rescale[1][2];
  const bool moved = move_bases<T>(work.scale, scores, rows, rescale);
  weigh<T>(work.scale, rows, scores);
  settle(scores[0]);
  if constexpr (!kFirst) {
    // Sums are never negative: the test keeps the compiler from waiting for the products before the weights are
    // computed.
    if (__any_sync(0xFFFFFFFFu, moved || fminf(rows.sum[0][0], rows.sum[0][1]) < 0)) {
      wait_for_products<0>();
      settle(rows.mixed[0]);
      rescale_mixed<T>(rescale, rows);
    }
    wait_for_products<0>();
    settle(rows.mixed[0]);
    settle(scores[0]);
  }
#pragma unroll
  for (int k = 0; k < T::kPieces; ++k)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float(&pair)[4] = scores[0][2 * k + i / 2];
      weights[k][i] = pack_halves(pair[i % 2 * 2], pair[i % 2 * 2 + 1]);
    }
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
  RingRun* const ring = reinterpret_cast<RingRun*>(stages + T::kHalves);
  __half* const warp_queries = stages + T::kQueryAt + static_cast<int>(threadIdx.x) / kWarp * T::kWarpRows * T::kStride;
  const TilePlace place = find_place<T>(work);

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

template <int kDim, int kValueDim>
bool attend(const RowsWork& work, Queue& queue) {
  if (work.run_count > 0)
    launch_tiles<WarpgroupTile<kDim, kValueDim, true>>(work, queue);
  else
    launch_tiles<WarpgroupTile<kDim, kValueDim, false>>(work, queue);
  return true;
}

}  // namespace hopper

bool attend_rows_hopper(const RowsWork& work, Queue& queue) {
#ifdef OCELLUS_HOPPER
  if (capability_of(queue) != 90) return false;
  if (attend_tile_dim(work.head_dim) == 64) return hopper::attend<64, 64>(work, queue);
  if (work.head_dim == 72) return hopper::attend<80, 72>(work, queue);
  if (attend_tile_dim(work.head_dim) == 128) return hopper::attend<128, 128>(work, queue);
#endif
  static_cast<void>(work);
  static_cast<void>(queue);
  return false;
}

}  // namespace ocellus::cuda

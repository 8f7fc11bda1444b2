// Flash attention (Dao et al. 2022) on tensor cores: one pass over the slots with a running maximum and sum. Stages of
// slots are copied into shared memory while the previous stage is computed. attend_rows.h is the contract; in the order
// to read:
//
//   attend_rows_plan.h         division into tasks and layout of the scratch, on both backends
//   attend_rows_place.cuh      division of a call into tiles: parameters of the kernels, and the place of a block
//   attend_tile.cuh            copies, fragments and their products
//   attend_rows_fetch.cuh      copies of a tile's queries, keys and values
//   attend_rows_scores.cuh     a warp's running state; scores become weights
//   attend_rows_mix.cuh        products of a warp with a stage
//   attend_rows_write.cuh      sums as rows of the output
//   attend_rows_calibrate.cu   the kernel that finds the ranges of calibrated scores before
//   attend_rows_long.cu        the same for heads that are too long for such tiles
//   attend_rows_hopper.cu      the same with larger products (attend_warpgroup.cuh) where there are any: heads of 64
//   attend_rows_warpgroups.cu  other heads and caches there, one warpgroup copying for the others
//                              (attend_warpgroup_tile.cuh, attend_warpgroup_copy.cuh, attend_barriers.cuh)
#include <cmath>
#include <numbers>

#include "kernels/attention/attend_rows.h"
#include "kernels/attention/attend_rows_calibrate.cuh"
#include "kernels/attention/attend_rows_fetch.cuh"
#include "kernels/attention/attend_rows_hopper.cuh"
#include "kernels/attention/attend_rows_long.cuh"
#include "kernels/attention/attend_rows_mix.cuh"
#include "kernels/attention/attend_rows_write.cuh"
#include "kernels/backends.h"
#include "kernels/base/launch.cuh"

namespace ocellus {
namespace cuda {
namespace {

/// Leaves the sums for combine_splits.
template <class T>
__device__ void write_partials(const RowsWork& work, const TilePlace& place, const TileRows<T>& rows) {
  static_assert(T::kRows == kAttendNarrowRows || T::kRowTiles > 1);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  float* mixed = work.partials + (blockIdx.x * int64_t{gridDim.y} + blockIdx.y) * T::kSplitFloats;
  float* bases = mixed + T::kRows * T::kDim;
  float* sums = bases + T::kRows;
#pragma unroll
  for (int r = 0; r < T::kRowTiles; ++r) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = static_cast<int>(threadIdx.x) / kWarp * T::kWarpRows + r * kFragment + half * kMatrix + lane / 4;
      if (place.tile_row + row >= place.rows) continue;
#pragma unroll
      for (int n = 0; n < T::kDim / kMatrix; ++n)
        *reinterpret_cast<float2*>(mixed + row * T::kDim + n * kMatrix + lane % 4 * 2) =
            make_float2(rows.mixed[r][n][2 * half], rows.mixed[r][n][2 * half + 1]);
      if (lane % 4 == 0) bases[row] = rows.base[r][half];
      if (lane % 4 == 0) sums[row] = rows.sum[r][half];
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kRowsThreads, T::kBlocks) attend_tile(const __grid_constant__ RowsWork work) {
  extern __shared__ __align__(16) std::byte shared[];
  __half* const stages = reinterpret_cast<__half*>(shared);
  RingRun* const ring = reinterpret_cast<RingRun*>(stages + T::kHalves);
  __half* const queries = stages + T::kQueryAt;
  __half* const warp_queries = queries + static_cast<int>(threadIdx.x) / kWarp * T::kWarpRows * T::kStride;
  TilePlace place = find_place<T>(work, static_cast<int>(blockIdx.x));

  wait_for_inputs();
  let_next_start();
  bound_place<T>(work, place);
  fetch_queries<T>(work, place, queries);
  fetch_runs<T>(work, place.stages_begin, ring);
  fetch_runs<T>(work, place.stages_begin + 1, ring);
  commit_copies();
  if (work.run_count > 0) {
    wait_for_copies<0>();
    __syncthreads();
  }
  fetch_stage<T>(work, place, ring, place.stages_begin, stages);
  commit_copies();
  TileRows<T> rows;
  start_rows<T>(work, place, rows);
  wait_for_copies<1>();
  __syncthreads();
  if constexpr (T::kKeepsQueries) keep_queries<T>(warp_queries, rows);

#pragma unroll 1
  for (int stage = place.stages_begin; stage < place.stages_end; ++stage) {
    __half* const keys = take_stage<T>(work, place, ring, stage, stages);
    if (own_row_of<T>(work, stage) >= rows.largest_limit) continue;  // after all of our rows
    const RingRun* runs = runs_of<T>(ring, stage);
    TileScores<T> scores = {};
    score_stage<T>(rows, warp_queries, keys, scores);
    if (work.calibration.rows != nullptr) calibrate_stage<T>(work, place, runs, stage, scores);
    if (work.row_bias != nullptr) bias_stage<T>(work, stage, scores);
    if (!sees_all<T>(work, runs, stage, rows)) mask_stage<T>(work, place, runs, stage, scores);
    float rescale[T::kRowTiles][2];
    const bool moved = move_bases<T>(work.scale, scores, rows, rescale);
    if (__any_sync(0xFFFFFFFFu, moved)) rescale_mixed<T>(rescale, rows);
    mix_stage<T>(work.scale, scores, keys + T::kSlots * T::kStride, rows);
  }

  add_lane_sums<T>(rows);
  if (T::kRowTiles == 1 && work.partials != nullptr) return write_partials<T>(work, place, rows);
  __syncthreads();  // the queries' memory may be a stage that other warps still read
  write_rows<T>(work, place, rows, warp_queries);
}

/// Combines the pieces of split tiles, in their order. One warp per query row.
__global__ void combine_splits(const __grid_constant__ RowsWork work, int splits, int tile_dim, int64_t floats) {
  __shared__ float weights[kRowsWarps][kAttendSplitBlocks];
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const int line = static_cast<int>(blockIdx.x) * kRowsWarps + warp;
  const int row = line % kAttendNarrowRows;
  wait_for_inputs();
  let_next_start();
  // The warps of a block share a tile, since it has a multiple of kRowsWarps rows.
  const int block = line / kAttendNarrowRows;
  TilePlace place;
  place_tile(work, block, kAttendNarrowRows, place);
  const int m = place.tile_row + row;
  if (m >= place.rows) return;

  const float* pieces = work.partials + block * int64_t{splits} * floats;
  const float* maxima = pieces + kAttendNarrowRows * tile_dim + row;
  float maximum = -INFINITY;
  for (int i = lane; i < splits; i += kWarp) maximum = fmaxf(maximum, maxima[i * floats]);
  maximum = warp_max(maximum);
  float sum = 0;
  for (int i = lane; i < splits; i += kWarp) {
    const float weight = exp2_of(maxima[i * floats] - maximum);
    weights[warp][i] = weight;
    sum += weight * maxima[i * floats + kAttendNarrowRows];
  }
  const float factor = 1.0f / warp_sum(sum);
  __syncwarp();
  __half* out = work.output + row_offset(work, place, m, work.output_stride);
  for (int e = lane * 2; e < work.head_dim; e += 2 * kWarp) {
    const float* from = pieces + row * tile_dim + e;
    float2 mixed = {};
#pragma unroll 8
    for (int i = 0; i < splits; ++i) {
      const float2 piece = *reinterpret_cast<const float2*>(from + i * floats);
      mixed.x += weights[warp][i] * piece.x;
      mixed.y += weights[warp][i] * piece.y;
    }
    *reinterpret_cast<__half2*>(out + e) = round_half2(mixed.x * factor, mixed.y * factor);
  }
}

template <class T>
void launch_tiles(const RowsWork& work, int splits, Queue& queue) {
  launch<attend_tile<T>>(queue, "attend_rows",
                         {.grid = dim3(static_cast<unsigned>(work.tiles * work.heads), static_cast<unsigned>(splits)),
                          .threads = kRowsThreads,
                          .shared_bytes = T::kSharedBytes},
                         work);
}

template <int kDim>
void attend(const RowsWork& work, const AttendTilesPlan& plan, Queue& queue) {
  if (work.spans != nullptr) return launch_tiles<RowsTile<kDim, 1, true>>(work, plan.splits, queue);
  if constexpr (kDim <= 128) {
    if (plan.rows == kAttendWideRows) return launch_tiles<RowsTile<kDim, 2>>(work, plan.splits, queue);
  }
  launch_tiles<RowsTile<kDim, 1>>(work, plan.splits, queue);
}

void attend_of_dim(int tile_dim, const RowsWork& work, const AttendTilesPlan& plan, Queue& queue) {
  switch (tile_dim) {
    case 32: return attend<32>(work, plan, queue);
    case 64: return attend<64>(work, plan, queue);
    case 80: return attend<80>(work, plan, queue);
    case 96: return attend<96>(work, plan, queue);
    case 128: return attend<128>(work, plan, queue);
    default: return attend<256>(work, plan, queue);
  }
}

RowsWork describe(const AttendRowsArgs& args) {
  RowsWork work{};
  work.query = static_cast<const __half*>(args.query.data);
  work.query_stride = args.query.stride;
  work.output = static_cast<__half*>(args.output.data);
  work.output_stride = args.output.stride;
  work.keys = reinterpret_cast<const __half*>(args.rows.keys);
  work.values = reinterpret_cast<const __half*>(args.rows.values);
  work.head_stride = args.rows.head_stride;
  work.sequence_stride = args.rows.sequence_stride;
  work.row_stride = static_cast<int>(args.rows.row_stride);
  work.runs = args.past.runs;
  work.run_count = args.past.count;
  work.layer = args.past.layer.index;
  work.head_dim = args.rows.head_dim;
  work.kv_heads = args.rows.heads;
  work.group = args.query_heads / args.rows.heads;
  work.heads = static_cast<int>(args.rows.heads * args.sequences);
  work.rows = static_cast<int>(args.query.rows / args.sequences);
  work.first_row = static_cast<int>(args.first_row);
  work.row_count = static_cast<int>(args.row_count);
  work.causal = args.bounds.kind != RowBounds::Kind::kAll;
  work.spans = args.bounds.kind == RowBounds::Kind::kListed ? args.bounds.spans : nullptr;
  work.row_bias = args.row_bias;
  work.root = std::sqrt(static_cast<float>(args.rows.head_dim));
  work.scale = std::numbers::log2e_v<float> / std::sqrt(static_cast<float>(args.rows.head_dim));
  return work;
}

}  // namespace

void attend_rows(const AttendRowsArgs& args, Queue& queue) {
  const int64_t given = args.scratch.rows * args.scratch.cols;
  const int64_t needed = attend_rows_scratch_bytes(args.rows.head_dim, queue.traits());
  if (given < needed)
    queue.fail(OCELLUS_FAIL(Code::kInternal, "attend_rows got %lld bytes of scratch instead of %lld",
                            static_cast<long long>(given), static_cast<long long>(needed)));
  const bool is_long = args.rows.head_dim > kAttendLongestTile;
  const bool calibrates = args.past.calibration.on && args.past.count > 0;
  if (args.rows.head_dim > kMaxHeadDim)
    queue.fail(
        OCELLUS_FAIL(Code::kUnsupported, "attend_rows has no kernel for such heads of %d values", args.rows.head_dim));
  const DeviceView<float>& pairs = args.calibration_scratch;
  if (calibrates && (pairs.rows < args.query.rows || pairs.cols < 2 * args.query_heads))
    queue.fail(OCELLUS_FAIL(Code::kInternal, "attend_rows got [%lld, %lld] of calibration scratch",
                            static_cast<long long>(pairs.rows), static_cast<long long>(pairs.cols)));
  if (!queue.ok() || args.query.rows == 0) return;

  RowsWork work = describe(args);
  if (calibrates) work.calibration = {pairs.data, pairs.stride, args.past.calibration};
  if (is_long) return attend_rows_long(work, queue);
  if (calibrates) find_calibration(work, reinterpret_cast<float*>(args.scratch.data), queue);
  const int tile_dim = attend_tile_dim(work.head_dim);
  const bool is_causal = args.bounds.kind == RowBounds::Kind::kCausal;
  const int64_t own = is_causal ? args.first_row + work.rows : args.row_count;
  const int64_t pieces = args.past.count + divide_up(own, kTileSlots);
  // Listed rows have narrow tiles only: as if the device were too large for wide ones.
  const int multiprocessors = work.spans == nullptr ? queue.cuda()->facts().multiprocessors : 1 << 30;
  const AttendTilesPlan plan = plan_attend_tiles(int64_t{work.rows} * work.group, work.heads,
                                                 divide_up(pieces, attend_stage_slots(tile_dim) / kTileSlots), tile_dim,
                                                 multiprocessors, queue.traits().lean);
  work.tiles = plan.tiles;
  work.stages_per_split = plan.stages_per_split;
  const bool many_rows = int64_t{work.rows} * work.group > kAttendNarrowRows;
  if (plan.splits == 1 && many_rows && !calibrates && attend_rows_hopper(work, queue)) return;
  work.partials = plan.splits > 1 ? reinterpret_cast<float*>(args.scratch.data) : nullptr;
  attend_of_dim(tile_dim, work, plan, queue);
  if (plan.splits == 1) return;
  const int64_t lines = int64_t{plan.tiles} * work.heads * kAttendNarrowRows;
  launch<combine_splits>(queue, "attend_rows",
                         {.grid = static_cast<unsigned>(lines / kRowsWarps), .threads = kRowsThreads}, work,
                         plan.splits, tile_dim, attend_split_floats(tile_dim));
}

}  // namespace cuda
}  // namespace ocellus

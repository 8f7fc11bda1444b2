#include "kernels/attention/attend_rows_calibrate.cuh"
#include "kernels/attention/attend_rows_fetch.cuh"
#include "kernels/attention/attend_rows_mix.cuh"
#include "kernels/base/launch.cuh"

namespace ocellus::cuda {
namespace {

/// Result of a block if blocks split the slots: low, high and slots of each row.
constexpr int64_t kPartialFloats = 3 * kAttendNarrowRows;
static_assert(kPartialFloats <= attend_split_floats(32));

/// Like attend_tile up to its scores. `work` excludes the own rows.
template <class T>
__global__ void __launch_bounds__(kRowsThreads, T::kBlocks) measure_tile(const __grid_constant__ RowsWork work) {
  static_assert(T::kKeepsQueries && T::kRows == kAttendNarrowRows);
  extern __shared__ __align__(16) std::byte shared[];
  __half* const stages = reinterpret_cast<__half*>(shared);
  RingRun* const ring = reinterpret_cast<RingRun*>(stages + T::kHalves);
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  __half* const warp_queries = stages + T::kQueryAt + warp * T::kWarpRows * T::kStride;
  const TilePlace place = find_place<T>(work, static_cast<int>(blockIdx.x));

  wait_for_inputs();
  let_next_start();
  fetch_queries<T>(work, place, stages + T::kQueryAt);
  fetch_runs<T>(work, place.stages_begin, ring);
  fetch_runs<T>(work, place.stages_begin + 1, ring);
  commit_copies();
  wait_for_copies<0>();
  __syncthreads();
  fetch_stage<T>(work, place, ring, place.stages_begin, stages);
  commit_copies();
  TileRows<T> rows;
  keep_queries<T>(warp_queries, rows);
  ScoreRange ranges[2];
  int seen[2] = {};

#pragma unroll 1
  for (int stage = place.stages_begin; stage < place.stages_end; ++stage) {
    const __half* keys = take_stage<T>(work, place, ring, stage, stages);
    TileScores<T> scores = {};
    score_stage<T>(rows, warp_queries, keys, scores);
    add_stage<T>(work, place, runs_of<T>(ring, stage), stage, scores, ranges, seen);
  }

#pragma unroll
  for (int half = 0; half < 2; ++half) {
    add_lanes(ranges[half]);
    const int row = warp * T::kWarpRows + half * kMatrix + lane / 4;
    if (lane % 4 != 0 || place.tile_row + row >= place.rows) continue;
    if (work.partials == nullptr) {
      set_calibration(work, place, place.tile_row + row, ranges[half], seen[half]);
    } else {
      float* partial = work.partials + (blockIdx.x * int64_t{gridDim.y} + blockIdx.y) * kPartialFloats + row;
      partial[0] = ranges[half].low;
      partial[kAttendNarrowRows] = ranges[half].high;
      partial[2 * kAttendNarrowRows] = static_cast<float>(seen[half]);
    }
  }
}

/// Combines the ranges of split tiles. One thread per query row, one block per tile.
__global__ void combine_ranges(const __grid_constant__ RowsWork work, int splits) {
  const int row = static_cast<int>(threadIdx.x), block = static_cast<int>(blockIdx.x);
  wait_for_inputs();
  let_next_start();
  TilePlace place;
  place_tile(work, block, kAttendNarrowRows, place);
  if (place.tile_row + row >= place.rows) return;
  ScoreRange range;
  float slots = 0;
#pragma unroll 4
  for (int i = 0; i < splits; ++i) {
    const float* partial = work.partials + (block * int64_t{splits} + i) * kPartialFloats + row;
    range.add({partial[0], partial[kAttendNarrowRows]});
    slots += partial[2 * kAttendNarrowRows];
  }
  set_calibration(work, place, place.tile_row + row, range, static_cast<int>(slots));
}

template <int kDim>
void measure(const RowsWork& work, int splits, Queue& queue) {
  using T = KeysTile<kDim>;
  launch<measure_tile<T>>(queue, "attend_rows",
                          {.grid = dim3(static_cast<unsigned>(work.tiles * work.heads), static_cast<unsigned>(splits)),
                           .threads = kRowsThreads,
                           .shared_bytes = T::kSharedBytes},
                          work);
}

void measure_of_dim(int tile_dim, const RowsWork& work, int splits, Queue& queue) {
  switch (tile_dim) {
    case 32: return measure<32>(work, splits, queue);
    case 64: return measure<64>(work, splits, queue);
    case 80: return measure<80>(work, splits, queue);
    case 96: return measure<96>(work, splits, queue);
    case 128: return measure<128>(work, splits, queue);
    default: return measure<256>(work, splits, queue);
  }
}

}  // namespace

void find_calibration(RowsWork work, float* partials, Queue& queue) {
  // no own rows: every stage is one of runs
  work.causal = false;
  work.row_count = 0;
  const int tile_dim = attend_tile_dim(work.head_dim);
  const int64_t stages = divide_up(work.run_count, attend_stage_slots(tile_dim) / kTileSlots);
  // Plans narrow tiles, as on a large device.
  const AttendTilesPlan plan =
      plan_attend_tiles(int64_t{work.rows} * work.group, work.heads, stages, tile_dim, 1 << 30, queue.traits().lean);
  work.tiles = plan.tiles;
  work.stages_per_split = plan.stages_per_split;
  work.partials = plan.splits > 1 ? partials : nullptr;
  measure_of_dim(tile_dim, work, plan.splits, queue);
  if (plan.splits == 1) return;
  launch<combine_ranges>(queue, "attend_rows",
                         {.grid = static_cast<unsigned>(work.tiles * work.heads), .threads = kAttendNarrowRows}, work,
                         plan.splits);
}

}  // namespace ocellus::cuda

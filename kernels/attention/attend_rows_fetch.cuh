// Tiled attention, second part: copying a tile's queries, keys and values into shared memory.
#pragma once

#include "kernels/attention/attend_rows_place.cuh"

namespace ocellus::cuda {

template <class T>
__device__ void fetch_queries(const RowsWork& work, const TilePlace& place, __half* to) {
  for (int i = static_cast<int>(threadIdx.x); i < T::kRows * T::kRowUnits; i += T::kThreads) {
    const int row = i / T::kRowUnits, unit = i % T::kRowUnits;
    const bool exists = place.tile_row + row < place.rows && unit * 8 < work.head_dim;
    const __half* from = work.query;
    if (exists) from += row_offset(work, place, place.tile_row + row, work.query_stride) + unit * 8;
    copy_16_async(to + row * T::kStride + unit * 8, from, exists ? 16 : 0);
  }
}

/// Descriptors of a stage's runs are fetched as many stages before its slots as those before their use, and kept in a
/// ring.
template <class T>
__device__ RingRun* runs_of(RingRun* ring, int stage) {
  return ring + stage % T::kRing * T::kPieces;
}

template <class T>
__device__ void fetch_runs(const RowsWork& work, int stage, RingRun* ring) {
  if constexpr (!T::kHasRuns) return;
  constexpr int kWords = sizeof(KvRun) / 8;
  static_assert(sizeof(KvRun) % 8 == 0 && T::kPieces * kWords <= T::kThreads);
  const int entry = static_cast<int>(threadIdx.x) / kWords, word = static_cast<int>(threadIdx.x) % kWords;
  const int piece = stage * T::kPieces + entry;
  if (entry >= T::kPieces || piece >= work.run_count) return;
  copy_8_async(reinterpret_cast<std::byte*>(&runs_of<T>(ring, stage)[entry].run) + word * 8,
               reinterpret_cast<const std::byte*>(work.runs + piece) + word * 8);
}

/// Begins to copy kCount slots of a stage, from its slot `at` on; the first `live` exist. The others become zero: their
/// weight is zero, but zero times unused memory might not be.
template <class T, int kCount>
__device__ void fetch_slots(const __half* keys, const __half* values, int stride, int live, int head_dim, int at,
                            __half* to) {
  constexpr int kUnits = kCount * T::kRowUnits;
  int thread = static_cast<int>(threadIdx.x);
  asm volatile("" : "+r"(thread));
#pragma unroll
  for (int first = 0; first < kUnits; first += T::kThreads) {
    const int i = first + thread;
    if (first + T::kThreads > kUnits && i >= kUnits) break;
    const int row = T::row_of_unit(i), unit = T::place_of_unit(i);
    const int bytes = row < live && unit * 8 < head_dim ? 16 : 0;
    const int from = row * stride + unit * 8;  // outside the memory if there is nothing to read
    __half* place = to + T::unit_offset(at + row, unit);
    copy_16_async(place, keys + from, bytes);
    if (T::kValueDim == T::kDim || unit * 8 < T::kValueDim) copy_16_async(place + T::kStage / 2, values + from, bytes);
  }
}

/// Begins to copy a stage's keys and values.
template <class T>
__device__ void fetch_stage(const RowsWork& work, const TilePlace& place, RingRun* ring, int stage, __half* to) {
  const int dim = work.head_dim;
  const int own = own_row_of<T>(work, stage);
  const int64_t own_offset = int64_t{own} * work.row_stride;
  if (!is_run<T>(own)) {
    fetch_slots<T, T::kSlots>(place.keys + own_offset, place.values + own_offset, work.row_stride, place.visible - own,
                              dim, 0, to);
    return;
  }
#pragma unroll
  for (int entry = 0; entry < T::kPieces; ++entry) {
    const int first = own + entry * kTileSlots;
    const int at = entry * kTileSlots;
    if (first < 0) {
      const KvRun& run = runs_of<T>(ring, stage)[entry].run;
      // Counts are one long row: an index of 32 bits takes the fewest registers.
      const int live = live_slots(run, 0, 0, work.layer * work.kv_heads + place.kv_head);
      if (threadIdx.x == 0) runs_of<T>(ring, stage)[entry].live = live;
      const std::byte* data = run.data + work.layer * run.layer_stride + place.kv_head * run.head_stride;
      fetch_slots<T, kTileSlots>(reinterpret_cast<const __half*>(data),
                                 reinterpret_cast<const __half*>(data + run.value_offset), dim, live, dim, at, to);
    } else {
      const int64_t offset = int64_t{first} * work.row_stride;
      fetch_slots<T, kTileSlots>(place.keys + offset, place.values + offset, work.row_stride, place.visible - first,
                                 dim, at, to);
    }
  }
}

/// Waits for a stage and begins to fetch the next one; returns its address.
template <class T>
__device__ __half* take_stage(const RowsWork& work, const TilePlace& place, RingRun* ring, int stage, __half* stages) {
  __half* const here = stages + (stage - place.stages_begin) % 2 * T::kStage;
  wait_for_copies<0>();
  __syncthreads();  // the stage has arrived for all, and all have finished the one whose memory is filled next
  if (stage + 1 < place.stages_end) {
    fetch_stage<T>(work, place, ring, stage + 1, stages + (stage + 1 - place.stages_begin) % 2 * T::kStage);
    fetch_runs<T>(work, stage + 2, ring);
    commit_copies();
  }
  return here;
}

}  // namespace ocellus::cuda

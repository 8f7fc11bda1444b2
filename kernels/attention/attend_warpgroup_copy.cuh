// Tiled attention by warpgroups: the warpgroup that copies queries, keys and values into shared memory.
#pragma once

#include "kernels/attention/attend_warpgroup_tile.cuh"

namespace ocellus::cuda {

/// A piece of a stage, as one lane knows it: where its first slot begins, and halves between slots.
struct CopiedPiece {
  const __half* keys;
  const __half* values;
  int stride;
  int live;
};

/// Lane p of each warp finds piece p of a stage. The first warp notes for the masks what they need.
template <class T>
__device__ CopiedPiece find_piece(const RowsWork& work, const TilePlace& place, int stage, typename T::Shared& shared,
                                  int at) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int own = own_row_of<T>(work, stage) + min(lane, T::kPieces - 1) * kTileSlots;
  CopiedPiece piece;
  int visible_from = 0;
  if (own < 0) {
    const KvRun& run = work.runs[own / kTileSlots + work.run_count];
    const std::byte* data = run.data + work.layer * run.layer_stride + place.kv_head * run.head_stride;
    piece.keys = reinterpret_cast<const __half*>(data);
    piece.values = reinterpret_cast<const __half*>(data + run.value_offset);
    piece.stride = work.head_dim;
    piece.live = live_slots(run, 0, 0, work.layer * work.kv_heads + place.kv_head);
    visible_from = run.visible_from;
  } else {
    const int64_t offset = int64_t{own} * work.row_stride;
    piece.keys = place.keys + offset;
    piece.values = place.values + offset;
    piece.stride = work.row_stride;
    piece.live = min(max(place.visible - own, 0), kTileSlots);
  }
  const bool complete = __all_sync(0xFFFFFFFFu, piece.live == kTileSlots && visible_from == 0);
  if (static_cast<int>(threadIdx.x) / kWarp % kRowsWarps == 0) {
    if (lane < T::kPieces) shared.pieces[at][lane] = {piece.live, visible_from};
    if (lane == 0) shared.complete[at] = complete;
  }
  return piece;
}

/// Begins to copy the keys of a stage, or its values: slots that are not live become zero. Their weight is zero, but
/// zero times unused memory might not be.
template <class T>
__device__ void copy_slots(const CopiedPiece& piece, const __half* first_slot, int head_dim, __half* to) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp % kRowsWarps;
#pragma unroll 1
  for (int block = 0; block < T::kSlots / T::kLaneRows / kRowsWarps; ++block) {
    const int row = (block * kRowsWarps + warp) * T::kLaneRows + T::lane_row();
    const int entry = (block * kRowsWarps + warp) * T::kLaneRows / kTileSlots;
    const auto address = __shfl_sync(0xFFFFFFFFu, reinterpret_cast<unsigned long long>(first_slot), entry);
    const int stride = __shfl_sync(0xFFFFFFFFu, piece.stride, entry);
    const bool live = row % kTileSlots < __shfl_sync(0xFFFFFFFFu, piece.live, entry);
    const __half* from = reinterpret_cast<const __half*>(address) + row % kTileSlots * stride;
#pragma unroll
    for (int first = 0; first < T::kRowUnits; first += T::kLaneUnits) {
      const int unit = first + T::lane_unit();
      if (T::kRowUnits % T::kLaneUnits != 0 && unit >= T::kRowUnits) break;
      copy_16_async(to + T::template unit_offset<T::kSlots>(row, unit), from + unit * 8,
                    live && unit * 8 < head_dim ? 16 : 0);
    }
  }
}

template <class T>
__device__ void copy_queries(const RowsWork& work, const TilePlace& place, __half* to) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp % kRowsWarps;
#pragma unroll 1
  for (int row = warp * T::kLaneRows + T::lane_row(); row < T::kRows; row += kRowsWarps * T::kLaneRows) {
    const bool exists = place.tile_row + row < place.rows;
    const __half* from = work.query;
    if (exists) from += row_offset(work, place, place.tile_row + row, work.query_stride);
#pragma unroll
    for (int unit = T::lane_unit(); unit < T::kRowUnits; unit += T::kLaneUnits)
      copy_16_async(to + T::template unit_offset<T::kRows>(row, unit), from + unit * 8,
                    exists && unit * 8 < work.head_dim ? 16 : 0);
  }
}

/// Copies for the workers, tile after tile, as soon as there is room.
template <class T>
__device__ void copy_tiles(const RowsWork& work, typename T::Shared& shared) {
  RingPlace<T> ring;
  const int tiles = work.tiles * work.heads;
#pragma unroll 1
  for (int round = 0; tile_of_round(round) < tiles; ++round) {
    TilePlace place = find_place<T>(work, tile_of_round(round));
    bound_place<T>(work, place);
    await(shared.queries_empty, ~round & 1);
    copy_queries<T>(work, place, shared.queries);
    arrive_after_copies(shared.queries_full);
#pragma unroll 1
    for (int stage = place.stages_begin; stage < place.stages_end; ++stage, ring.step()) {
      await(shared.keys_empty[ring.at], ~ring.phase & 1);
      const CopiedPiece piece = find_piece<T>(work, place, stage, shared, ring.at);
      copy_slots<T>(piece, piece.keys, work.head_dim, shared.keys[ring.at]);
      arrive_after_copies(shared.keys_full[ring.at]);
      arrive(shared.keys_full[ring.at]);  // Notes on the pieces are written.
      await(shared.values_empty[ring.at], ~ring.phase & 1);
      copy_slots<T>(piece, piece.values, work.head_dim, shared.values[ring.at]);
      arrive_after_copies(shared.values_full[ring.at]);
    }
  }
}

}  // namespace ocellus::cuda

// Decode attention over tiles that may be packed: the kernels for one division of tiles (PackedShape).
//
// Like attend_piece of attend_step.cu, but packed tiles pass through shared memory, several stages ahead, and a warp's
// f16 tiles follow all its packed ones. With calibration, find_ranges runs before: it computes bit-equal scores, and
// writes the minimum and the maximum of every row and query head.
#pragma once

#include "kernels/attention/step/combine.cuh"
#include "kernels/attention/step/fill_params.cuh"
#include "kernels/attention/step/packed_attention.cuh"
#include "kernels/base/device_limits.cuh"

namespace ocellus::cuda {

/// Grid: pieces, key/value heads times head tiles, rows.
template <class Shape>
__global__ void __launch_bounds__(kStepThreads,
                                  static_cast<int>(attend_step_residents(64 * Shape::kChunks, KvFormat::k1Bit)))
    attend_packed_piece(const StepParams p) {
  using WarpRoom = PackedWarpRoom<Shape, 2>;
  extern __shared__ float4 shared[];
  __shared__ PackedRoom<Shape> room;
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  const int dim = p.heads.dim;
  const StepPiece piece = start_piece(p);
  if (!has_work(piece)) return;
  if (!piece.active) return clear_output(p, piece);

  const NewStepSlot new_slot(p, piece);
  const StepPair<Shape::kChunks> pair(p, piece);
  const WarpRoom own(shared, warp, p.heads.per_block, dim);
  const TileCounts tiles = list_tiles(p, piece, warp, lane, room.tiles[warp]);
  TileRing<Shape, 2> ring(room.tiles[warp], tiles.packed, p.layer, own.stages);
  // With a settled cache, the code above overlaps the preceding kernels; the code below reads their results, or writes.
  wait_for_inputs();
  prepare_inputs(p, piece, pair, new_slot, room.step);
  __syncthreads();
  PackedAttended<Shape> attended;
  PackedQuerySource<Shape> source{p, room.step, piece.heads, lane, own.turned};
  attend_packed_tiles(p, piece, room.tiles[warp], tiles.packed, ring, source, lane, attended);
  attend_plain_tiles(p, piece, room.tiles[warp], tiles, source, lane, attended);
  gather_sums(attended, piece, dim, warp, lane, room.step, own.stages);
  __syncthreads();
  finish_piece(p, piece, room.step, shared, WarpRoom::units(p.heads.per_block, dim));
  if (piece.pieces == 1) return clear_ranges(p, piece);
  if (!all_pieces_done(p, piece, &room.step.is_last)) return;
  combine_pieces<12>(p, piece);  // there are twice as many as without packed tiles
  clear_ranges(p, piece);
}

/// Has the same grid. Uses scores of packed slots only.
template <class Shape>
__global__ void __launch_bounds__(kStepThreads, 2) find_ranges(const StepParams p) {
  using WarpRoom = PackedWarpRoom<Shape, 1>;
  extern __shared__ float4 shared[];
  __shared__ PackedRoom<Shape> room;
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  const StepPiece piece = start_piece(p);
  if (!has_work(piece)) return;
  if (!piece.active) return wait_for_inputs();

  const StepPair<Shape::kChunks> pair(p, piece);
  const WarpRoom own(shared, warp, p.heads.per_block, p.heads.dim);
  const TileCounts tiles = list_tiles(p, piece, warp, lane, room.tiles[warp]);
  TileRing<Shape, 1> ring(room.tiles[warp], tiles.packed, p.layer, own.stages);
  wait_for_inputs();
  prepare_inputs(p, piece, pair, NewStepSlot(), room.step);
  __syncthreads();
  PackedQuerySource<Shape> source{p, room.step, piece.heads, lane, own.turned};
  StepScoreRange range;
  for (int i = 0; i < tiles.packed; ++i) {
    const StepTile tile = room.tiles[warp][i];
    source.follow(tile);
    range.slots += tile.count;
    for (int first = 0; first < tile.count; first += Shape::kSlots) {
      float products[Shape::kSteps][4];
      multiply_keys<Shape>(ring.next(), source.query, lane, products);
      const int live = tile.count - first;
      if (live < Shape::kSlots) replace_from(products, live, lane / 4, INFINITY);
      range.lower(source.query, products);
      if (live < Shape::kSlots) replace_from(products, live, lane / 4, -INFINITY);
      range.raise(source.query, products);
    }
  }
  range.gather(warp, lane, room.step, room.slots);
  __syncthreads();
  add_ranges(p, piece, room.step, room.slots);
}

template <class Shape>
void launch_packed(const StepParams& params, const AttendStepArgs& args, const AttendStepPlan& plan, Queue& queue) {
  constexpr int kUnit = kStepWarps * int{sizeof(float4)};
  constexpr int kDim = 64 * Shape::kChunks;
  // Eight heads of more than 128 values need more than devices with kLeastSharedBytes have.
  static_assert(kUnit * PackedWarpRoom<Shape, 2>::units(attend_step_heads(kDim), kDim) + sizeof(PackedRoom<Shape>) <=
                (Shape::kChunks > 2 ? most_shared_bytes(87) : kLeastSharedBytes));
  LaunchShape shape{.grid = step_grid(args, plan), .threads = kStepThreads};
  if (params.calibration.ranges != nullptr) {
    shape.shared_bytes = kUnit * PackedWarpRoom<Shape, 1>::units(params.heads.per_block, args.heads.dim);
    launch<find_ranges<Shape>>(queue, "attend_step", shape, params);
  }
  shape.shared_bytes = kUnit * PackedWarpRoom<Shape, 2>::units(params.heads.per_block, args.heads.dim);
  launch<attend_packed_piece<Shape>>(queue, "attend_step", shape, params);
}

}  // namespace ocellus::cuda

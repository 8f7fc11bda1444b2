// One kernel per decode step and layer. A block takes a piece of one row's tiles for one key/value head and up to
// kStepHeads of its query heads; the last block of a row to finish combines the row's pieces. attend_step.h is the
// contract, attend_one.h the CPU's half. The kernel here reads f16 tiles; in step/, in the order to read:
//
//   plan.h                 division of the work, and layout of the scratch
//   params.cuh             parameters of the kernels; fill_params.cuh fills them in
//   block.cuh              the beginning of every kernel: a block's piece, its shared memory, rotated inputs
//   memory_reads.cuh       loads from memory
//   f16_tile.cuh           up to 16 f16 slots in the fragments of matrix products: scores, weights, sums
//   token_scaled_tile.cuh  the same for slots packed with scales by token
//   rotate_queries.cuh     queries for tiles that have moved
//   store_new_slots.cuh    new slots beforehand, if other rows of the call see them
//   combine.cuh            the end of every kernel: results of warps, then of pieces
//
// Tiles packed with scales by channel have kernels of their own there:
//
//   packed_kernels.cuh     the kernels; packed_kernels.cu chooses between them
//   packed_attention.cuh   a warp's pass over its tiles: packed ones, then f16 ones
//   packed_tiles.cuh       the list of those tiles
//   packed_stages.cuh      copies of packed ones to shared memory, several stages ahead
//   packed_codes.h         codes that become f16 numbers in place
//   block_scales.cuh       offsets and steps of a block
//   packed_scores.cuh      queries folded with those, products with the keys' codes, scores
//   packed_sums.cuh        weights, and sums of the values' codes
//   score_ranges.cuh       calibration: the range of the scores of a row, and its use
#include "kernels/attention/attend_step.h"
#include "kernels/attention/step/block.cuh"
#include "kernels/attention/step/combine.cuh"
#include "kernels/attention/step/f16_tile.cuh"
#include "kernels/attention/step/fill_params.cuh"
#include "kernels/attention/step/plan.h"
#include "kernels/attention/step/rotate_queries.cuh"
#include "kernels/attention/step/store_new_slots.cuh"
#include "kernels/attention/step/token_scaled_tile.cuh"
#include "kernels/backends.h"
#include "kernels/base/device_limits.cuh"
#include "kernels/base/launch.cuh"

namespace ocellus {
namespace cuda {
namespace {

/// The tiles of one warp: every kStepWarps-th of the piece. Each lane reads the entry of one of the next 32. Slots:
/// TileSlots, or TokenTileSlots if tiles may be packed with scales by token.
template <class Slots>
class TileWalk {
  static constexpr bool kByToken = std::is_same_v<Slots, TokenTileSlots>;

 public:
  __device__ TileWalk(const StepParams& p, const StepPiece& piece, int warp, int lane)
      : p_(&p),
        row_(piece.row),
        kv_head_(piece.kv_head),
        new_tile_(piece.new_tile),
        new_slot_(piece.new_slot),
        start_(piece.start),
        end_(piece.end),
        lane_tile_(piece.begin + warp + lane * kStepWarps) {}

  /// Call it for 0, 1, 2 ... in turn, with all lanes together. Returns no slots after the last tile.
  __device__ Slots at(int index) {
    if (index % kWarp == 0) read_entries();
    const int source = index % kWarp;
    Slots slots;
    slots.keys = pointer_of(mine_.keys, source);
    slots.value_offset = __shfl_sync(0xFFFFFFFFu, mine_.value_offset, source);
    slots.count = __shfl_sync(0xFFFFFFFFu, mine_.count, source);
    slots.shift = __shfl_sync(0xFFFFFFFFu, mine_.shift, source);
    if constexpr (kByToken) {
      slots.key_scales = pointer_of(mine_.key_scales, source);
      slots.value_scales = pointer_of(mine_.value_scales, source);
    }
    return slots;
  }
  /// After at(0), if there are at most 32 tiles: prefetches those after the first.
  __device__ void fetch_rest(int dim, int lane) const {
    if (lane == 0 || mine_.count == 0) return;
    if constexpr (kByToken) {
      if (mine_.key_scales != nullptr) return;
    }
    fetch_ahead(mine_.keys, 2 * dim * mine_.count);
    fetch_ahead(mine_.keys + mine_.value_offset, 2 * dim * mine_.count);
  }

 private:
  __device__ static const std::byte* pointer_of(const std::byte* mine, int source) {
    const auto address = reinterpret_cast<unsigned long long>(mine);
    return reinterpret_cast<const std::byte*>(__shfl_sync(0xFFFFFFFFu, address, source));
  }
  __device__ void read_entries() {
    mine_ = Slots{};
    if (lane_tile_ < end_) {
      const KvRun& run = p_->tiles.at(row_, lane_tile_);
      mine_.keys = keys_of(run, p_->layer.index, kv_head_);
      mine_.value_offset = __ldcg(&run.value_offset);
      mine_.shift = __ldcg(&run.position_shift);
      mine_.count = lane_tile_ == new_tile_ ? new_slot_ : live_in(run, *p_, kv_head_);
      if constexpr (kByToken) {
        if (__ldcg(reinterpret_cast<const unsigned char*>(&run.packed)) != 0) find_packed(run);
      } else if (start_.slot > 0 && lane_tile_ == start_.tile) {
        mine_.keys += 2 * start_.slot * p_->heads.dim;
        mine_.count -= start_.slot;
      }
    }
    lane_tile_ += kWarp * kStepWarps;
  }
  __device__ void find_packed(const KvRun& run) {
    const int dim = p_->heads.dim;
    const int64_t first = __ldcg(&run.first);
    const auto layout = KvBlockLayout::of(p_->layer.format, dim, first + __ldcg(&run.capacity), KvScaleForm::kByToken);
    mine_.key_scales = load_pointer(run.data) + p_->layer.offset + kv_head_ * layout.padded_bytes;
    mine_.value_scales =
        mine_.key_scales + KvBlockLayout::token_scales_at(dim) + first * KvBlockLayout::token_scale_bytes(dim);
    mine_.keys = mine_.key_scales + layout.keys + first * layout.key_row_bytes;
    mine_.value_offset = layout.values - layout.keys + first * (layout.value_row_bytes - layout.key_row_bytes);
  }

  const StepParams* p_;
  int row_, kv_head_, new_tile_, new_slot_;
  StepSlot start_;
  int end_, lane_tile_;
  Slots mine_;
};

template <int kChunks>
__device__ void load_keys(const StepParams& p, const TileSlots& slots, int row, int column, Tile<kChunks>& tile) {
  tile.load_keys(slots, p.heads.dim, row, column);
}
template <int kChunks>
__device__ void load_values(const StepParams& p, const TileSlots& slots, int row, int column, Tile<kChunks>& tile) {
  tile.load_values(slots, p.heads.dim, row, column);
}
template <int kChunks>
__device__ void load_keys(const StepParams& p, const TokenTileSlots& slots, int row, int column, Tile<kChunks>& tile) {
  load_token_keys(slots, key_bits(p.layer.format), p.heads.dim, row, column, tile);
}
template <int kChunks>
__device__ void load_values(const StepParams& p, const TokenTileSlots& slots, int row, int column,
                            Tile<kChunks>& tile) {
  load_token_values(slots, value_bits(p.layer.format), p.heads.dim, row, column, tile);
}

/// A warp's part of the dynamic shared memory, in units of 16 bytes: rotated queries, at the end its sums.
template <int kChunks>
__host__ __device__ constexpr int warp_units(int heads, int dim) {
  constexpr int kTurned = StepRoom<kChunks>::kChannels / 8 + 1;
  return heads * (dim / 4 + 1 < kTurned ? kTurned : dim / 4 + 1);
}

/// Puts a warp's sums, relative to its own maximum, into its part of `shared`: [heads, E / 4 + 1].
template <int kChunks>
__device__ void gather_warp(const Attended<kChunks>& attended, const StepPiece& piece, int dim, int warp, int row,
                            int column, StepRoom<kChunks>& room, float4* shared) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int head = 2 * column + h;
    const float sum = sum_of_rows(attended.sum[h]);
    if (row == 0) {
      room.maxima[warp][head] = attended.maximum[h];
      room.sums[warp][head] = sum;
    }
    float4* to = shared + warp * warp_units<kChunks>(piece.heads, dim) + head * (dim / 4 + 1) + 2 * row;
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      if (head >= piece.heads || kChunk * i + 8 * row >= dim) continue;
      const auto& x = attended.mixed[i];
      to[kChunk / 4 * i] = make_float4(x[0][h], x[0][2 + h], x[1][h], x[1][2 + h]);
      to[kChunk / 4 * i + 1] = make_float4(x[2][h], x[2][2 + h], x[3][h], x[3][2 + h]);
    }
  }
}

/// Grid: pieces, key/value heads times head tiles, rows.
template <int kChunks, class Slots>
__global__ void __launch_bounds__(kStepThreads,
                                  static_cast<int>(attend_step_residents(kChunks* kChunk, KvFormat::kF16)))
    attend_piece(const StepParams p) {
  extern __shared__ float4 shared[];
  __shared__ StepRoom<kChunks> room;
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  const int row = lane / 4, column = lane % 4, dim = p.heads.dim;
  const StepPiece piece = start_piece(p);
  if (!has_work(piece)) return;
  if (!piece.active) return clear_output(p, piece);

  const NewStepSlot new_slot(p, piece);
  const StepPair<kChunks> pair(p, piece);
  TileWalk<Slots> walk(p, piece, warp, lane);
  Slots slots = walk.at(0);
  Tile<kChunks> tile;
  load_keys(p, slots, row, column, tile);
  load_values(p, slots, row, column, tile);
  if (piece.end - piece.begin <= kAttendStepAlone) walk.fetch_rest(dim, lane);
  // With a settled cache, the code above overlaps the preceding kernels; the code below reads their results, or writes.
  wait_for_inputs();
  prepare_inputs(p, piece, pair, new_slot, room);
  __syncthreads();
  uint4 queries[2 * kChunks];
  read_queries<kChunks>(room.queries[row], column, queries);
  int shift = 0;  // shift of the queries

  Attended<kChunks> attended;
  for (int i = 0, index = piece.begin + warp; index < piece.end; ++i, index += kStepWarps) {
    const bool has_new = index == piece.new_tile;
    if (has_new)
      tile.fill_in(room.key, room.value, piece.new_slot - (index == piece.start.tile ? piece.start.slot : 0), row,
                   column);
    if (slots.shift != shift) {
      shift = slots.shift;
      __half* turned = reinterpret_cast<__half*>(shared + warp * warp_units<kChunks>(piece.heads, dim));
      turn_queries(p, room, piece.heads, shift, turned);
      if (row < piece.heads) read_queries<kChunks>(turned + row * (kChunks * kChunk + 8), column, queries);
    }
    float scores[4];
    score<kChunks>(tile.keys, queries, slots.count + has_new, row, scores);
    // The next tile is fetched while this one is computed.
    slots = walk.at(i + 1);
    load_keys(p, slots, row, column, tile);
    uint32_t weights[2];
    attended.weigh(scores, weights);
    attended.mix(tile.values, weights);
    load_values(p, slots, row, column, tile);
  }
  if (warp < piece.warps) gather_warp(attended, piece, dim, warp, row, column, room, shared);
  __syncthreads();
  finish_piece(p, piece, room, shared, warp_units<kChunks>(piece.heads, dim));
  if (piece.pieces > 1 && all_pieces_done(p, piece, &room.is_last)) combine_pieces<8>(p, piece);
}

template <int kChunks, class Slots>
void launch_pieces(const StepParams& params, const AttendStepArgs& args, const AttendStepPlan& plan, Queue& queue) {
  constexpr int kMostUnits = warp_units<kChunks>(kAttendStepHeads, std::min(kChunks * kChunk, 256));
  constexpr int kLongUnits = warp_units<kChunks>(attend_step_heads(kChunks * kChunk), kChunks * kChunk);
  static_assert(kStepWarps * std::max(kMostUnits, kLongUnits) * sizeof(float4) + sizeof(StepRoom<kChunks>) <=
                kLeastSharedBytes);
  const LaunchShape shape{
      .grid = step_grid(args, plan),
      .threads = kStepThreads,
      .shared_bytes =
          kStepWarps * warp_units<kChunks>(static_cast<int>(plan.heads), args.heads.dim) * int{sizeof(float4)}};
  launch<attend_piece<kChunks, Slots>>(queue, "attend_step", shape, params);
}

template <class Slots>
void launch_chunks(const StepParams& params, const AttendStepArgs& args, const AttendStepPlan& plan, Queue& queue) {
  switch (divide_up(args.heads.dim, kChunk)) {
    case 1: return launch_pieces<1, Slots>(params, args, plan, queue);
    case 2: return launch_pieces<2, Slots>(params, args, plan, queue);
    case 3: return launch_pieces<3, Slots>(params, args, plan, queue);
    case 4: return launch_pieces<4, Slots>(params, args, plan, queue);
    default: return launch_pieces<8, Slots>(params, args, plan, queue);
  }
}

}  // namespace

void attend_step(const AttendStepArgs& args, Queue& queue) {
  const int64_t rows = args.query.rows, dim = args.heads.dim;
  if (!queue.ok() || rows == 0) return;
  const bool invariant = queue.traits().batch_invariant;
  const AttendStepPlan plan = plan_attend_step(rows, args.tiles.most, args.heads.query, args.heads.kv, dim,
                                               queue.cuda()->facts().multiprocessors, args.layer.format, invariant);
  const int64_t given = args.scratch.rows * args.scratch.cols;
  const int64_t needed = AttendStepScratch::bytes(plan, rows, args.heads.kv, dim, args.layer.format);
  if (given < needed) {
    return queue.fail(OCELLUS_FAIL(Code::kInternal, "attend_step got %lld bytes of scratch instead of %lld",
                                   static_cast<long long>(given), static_cast<long long>(needed)));
  }
  StepParams params = step_params(args, plan, invariant);
  if (args.tiles.together && rows > 1 && !args.tiles.stored) {
    launch<store_new_slots>(queue, "attend_step", {.grid = step_store_grid(args), .threads = kStepThreads}, params);
    params.tiles.stored = true;
  }
  if (!is_packed(args.layer.format)) return launch_chunks<TileSlots>(params, args, plan, queue);
  if (args.layer.scales == KvScaleForm::kByToken) return launch_chunks<TokenTileSlots>(params, args, plan, queue);
  attend_step_packed(params, args, plan, queue);
}

}  // namespace cuda
}  // namespace ocellus

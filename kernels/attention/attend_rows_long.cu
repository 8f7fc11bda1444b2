// Attention of long heads: a block takes 32 query rows of one key/value head, 16 slots at a time. Each of its eight
// warps takes 64 channels. It scores all rows with its channels of the queries and keys; the warps' parts are added in
// shared memory, and then each mixes its channels of the values by the same weights.
#include "kernels/attention/attend_rows_calibrate.cuh"
#include "kernels/attention/attend_rows_long.cuh"
#include "kernels/attention/attend_rows_mix.cuh"
#include "kernels/base/launch.cuh"

namespace ocellus::cuda {
namespace {

constexpr int kWarps = 8, kThreads = kWarps * kWarp;
constexpr int kRowTiles = 2, kRows = kRowTiles * kFragment;
constexpr int kChannels = 64;  // channels of a warp
constexpr int kDim = kWarps * kChannels, kUnits = kDim / 8;
static_assert(kDim >= kMaxHeadDim);

/// Rows of queries, keys and values in shared memory, for the functions that load fragments.
struct LongTile {
  static constexpr int kStride = kDim + 8;
};

struct LongRoom {
  __half queries[kRows * LongTile::kStride];
  __half keys[kTileSlots * LongTile::kStride];
  __half values[kTileSlots * LongTile::kStride];
  float parts[kWarps][kRows][kTileSlots];  // scores by the channels of each warp
  float scores[kRows][kTileSlots + 1];     // their sums, minus infinity where a row does not see a slot
};
static_assert(sizeof(LongRoom) <= kLeastSharedBytes);

/// Up to kTileSlots slots: a run, or own rows.
struct LongPiece {
  const __half* keys;
  const __half* values;
  int64_t stride;
  int live;
  int own;           // own row of the first slot; negative: a run
  int visible_from;  // first row that sees the run
  bool calibrated;
};

__device__ LongPiece piece_of(const RowsWork& work, const TilePlace& place, int index) {
  LongPiece piece{};
  piece.own = (index - work.run_count) * kTileSlots;
  if (piece.own >= 0) {
    piece.keys = place.keys + int64_t{piece.own} * work.row_stride;
    piece.values = place.values + int64_t{piece.own} * work.row_stride;
    piece.stride = work.row_stride;
    piece.live = min(place.visible - piece.own, kTileSlots);
    return piece;
  }
  const KvRun& run = work.runs[index];
  const std::byte* data = run.data + work.layer * run.layer_stride + place.kv_head * run.head_stride;
  piece.keys = reinterpret_cast<const __half*>(data);
  piece.values = reinterpret_cast<const __half*>(data + run.value_offset);
  piece.stride = work.head_dim;
  piece.live = live_slots(run, 0, 0, work.layer * work.kv_heads + place.kv_head);
  piece.visible_from = run.visible_from;
  piece.calibrated = run.calibrated;
  return piece;
}

/// Begins to copy rows of `dim` channels; those after the first `live`, and channels after the last, become zeros.
__device__ void fetch_rows(const __half* from, int64_t stride, int live, int dim, __half* to) {
  for (int i = static_cast<int>(threadIdx.x); i < kTileSlots * kUnits; i += kThreads) {
    const int row = i / kUnits, unit = i % kUnits;
    const bool exists = row < live && unit * 8 < dim;
    copy_16_async(to + row * LongTile::kStride + unit * 8, exists ? from + row * stride + unit * 8 : from,
                  exists ? 16 : 0);
  }
  commit_copies();
}

__device__ void fetch_queries(const RowsWork& work, const TilePlace& place, __half* to) {
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kUnits; i += kThreads) {
    const int row = i / kUnits, unit = i % kUnits;
    const bool exists = place.tile_row + row < place.rows && unit * 8 < work.head_dim;
    const __half* from = work.query;
    if (exists) from += row_offset(work, place, place.tile_row + row, work.query_stride) + unit * 8;
    copy_16_async(to + row * LongTile::kStride + unit * 8, from, exists ? 16 : 0);
  }
  commit_copies();
}

/// The state of a warp: its channels of the queries, and of the sums of values. A lane holds, of every 16 rows, rows
/// l / 4 and l / 4 + 8.
struct LongRows {
  uint32_t queries[kRowTiles][kChannels / kFragment][4];
  float mixed[kRowTiles][kChannels / kMatrix][4] = {};
  float base[kRowTiles][2] = {{-INFINITY, -INFINITY}, {-INFINITY, -INFINITY}};
  float sum[kRowTiles][2] = {};  // sum of the weights that this lane saw
};

/// Loads a warp's channels of the queries.
__device__ void keep_queries(const LongRoom& room, int warp, LongRows& rows) {
  const __half* queries = fragment_row<LongTile>(room.queries + warp * kChannels);
#pragma unroll
  for (int r = 0; r < kRowTiles; ++r)
#pragma unroll
    for (int k = 0; k < kChannels / kFragment; ++k)
      load_matrices(rows.queries[r][k], queries + r * kFragment * LongTile::kStride + k * kFragment);
}

__device__ void score_part(const LongRoom& room, const LongRows& rows, int warp, int lane,
                           float (&part)[kRows][kTileSlots]) {
  float scores[kRowTiles][2][4] = {};
  const __half* keys = room.keys + warp * kChannels;
#pragma unroll
  for (int k = 0; k < kChannels / kFragment; ++k) {
    uint32_t factor[4];
    load_matrices(factor, key_fragment_row<LongTile>(keys) + k * kFragment);
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
      multiply_add(scores[r][0], rows.queries[r][k], factor[0], factor[1]);
      multiply_add(scores[r][1], rows.queries[r][k], factor[2], factor[3]);
    }
  }
#pragma unroll
  for (int r = 0; r < kRowTiles; ++r)
#pragma unroll
    for (int n = 0; n < 2; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        *reinterpret_cast<float2*>(&part[r * kFragment + half * kMatrix + lane / 4][n * kMatrix + lane % 4 * 2]) =
            make_float2(scores[r][n][2 * half], scores[r][n][2 * half + 1]);
}

/// True if query row m sees slot `slot` of a piece.
__device__ bool sees(const RowsWork& work, const TilePlace& place, const LongPiece& piece, int m, int slot) {
  if (slot >= piece.live) return false;
  const int limit = limit_of(work, place, m);
  if (piece.own < 0) return piece.visible_from < limit;
  const RowSpan span = span_of(work, place, m);
  return piece.own + slot >= span.begin && piece.own + slot < span.end;
}

__device__ float sum_of_parts(const LongRoom& room, int row, int slot) {
  float sum = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) sum += room.parts[w][row][slot];
  return sum;
}

__device__ void add_parts(const RowsWork& work, const TilePlace& place, const LongPiece& piece, LongRoom& room) {
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kTileSlots; i += kThreads) {
    const int row = i / kTileSlots, slot = i % kTileSlots, m = place.tile_row + row;
    float score = sum_of_parts(room, row, slot);
    if (work.calibration.rows != nullptr && piece.calibrated && m < place.rows)
      score = calibrated_score(work, calibration_of(work, place, m), score);
    if (work.row_bias != nullptr && piece.own >= 0 && slot < piece.live)
      score += work.row_bias[piece.own + slot] * work.root;
    room.scores[row][slot] = sees(work, place, piece, m, slot) ? score : -INFINITY;
  }
}

/// Turns scores into weights, and moves the bases of rows whose scores have grown: see move_bases, mix_stage.
__device__ void weigh(const LongRoom& room, float scale, int r, int lane, LongRows& rows, uint32_t (&factor)[4]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float* scores = room.scores[r * kFragment + half * kMatrix + lane / 4];
    const int col = lane % 4 * 2;
    const float mine[4] = {scores[col], scores[col + 1], scores[col + 8], scores[col + 9]};
    float largest = fmaxf(fmaxf(mine[0], mine[1]), fmaxf(mine[2], mine[3]));
    largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, 2)) * scale;
    float& base = rows.base[r][half];
    const bool moves = largest > base + kMaxAboveBase;
    const float rescale = moves ? exp2_of(base - largest) : 1.0f;
    base = moves ? largest : base;
    rows.sum[r][half] *= rescale;
#pragma unroll
    for (int n = 0; n < kChannels / kMatrix; ++n) {
      rows.mixed[r][n][2 * half] *= rescale;
      rows.mixed[r][n][2 * half + 1] *= rescale;
    }
    const float offset = base == -INFINITY ? 0.0f : -base;
    float weights[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      weights[i] = exp2_of(fmaf(mine[i], scale, offset));
      rows.sum[r][half] += weights[i];
    }
    factor[half] = pack_halves(weights[0], weights[1]);
    factor[2 + half] = pack_halves(weights[2], weights[3]);
  }
}

__device__ void mix(const LongRoom& room, float scale, int warp, int lane, LongRows& rows) {
  uint32_t factors[kRowTiles][4];
#pragma unroll
  for (int r = 0; r < kRowTiles; ++r) weigh(room, scale, r, lane, rows, factors[r]);
  const __half* values = room.values + warp * kChannels;
#pragma unroll
  for (int n = 0; n < kChannels / kFragment; ++n) {
    uint32_t value[4];
    load_matrices_transposed(value, fragment_row<LongTile>(values) + n * kFragment);
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
      multiply_add(rows.mixed[r][2 * n], factors[r], value[0], value[1]);
      multiply_add(rows.mixed[r][2 * n + 1], factors[r], value[2], value[3]);
    }
  }
}

__device__ void write(const RowsWork& work, const TilePlace& place, int warp, int lane, LongRows& rows) {
#pragma unroll
  for (int r = 0; r < kRowTiles; ++r)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float& sum = rows.sum[r][half];
      sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 1);
      sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 2);
      const int m = place.tile_row + r * kFragment + half * kMatrix + lane / 4;
      if (m >= place.rows) continue;
      __half* out = work.output + row_offset(work, place, m, work.output_stride);
      const float factor = 1.0f / sum;
#pragma unroll
      for (int n = 0; n < kChannels / kMatrix; ++n) {
        const int channel = warp * kChannels + n * kMatrix + lane % 4 * 2;
        if (channel < work.head_dim)
          *reinterpret_cast<__half2*>(out + channel) =
              round_half2(rows.mixed[r][n][2 * half] * factor, rows.mixed[r][n][2 * half + 1] * factor);
      }
    }
}

/// Pieces that some row of the tile may see. Where no run comes first, those before the first row's are left out.
__device__ int2 pieces_of(const RowsWork& work, TilePlace& place) {
  const bool listed = work.spans != nullptr;
  const int last = place.tile_row + kRows - 1;
  place.visible = span_of(work, place, last).end;
  const int begin = listed && work.run_count == 0 ? span_of(work, place, place.tile_row).begin / kTileSlots : 0;
  return make_int2(begin, work.run_count + divide_up(place.visible, kTileSlots));
}

/// The block's query rows, and the keys and values of their head.
__device__ TilePlace place_of_block(const RowsWork& work) {
  TilePlace place;
  place_tile(work, static_cast<int>(blockIdx.x), kRows, place);
  const int64_t own = place.sequence * work.sequence_stride + place.kv_head * work.head_stride;
  place.keys = work.keys + own;
  place.values = work.values + own;
  return place;
}

__global__ void __launch_bounds__(kThreads) attend_long(const __grid_constant__ RowsWork work) {
  extern __shared__ __align__(16) std::byte shared[];
  LongRoom& room = *reinterpret_cast<LongRoom*>(shared);
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  TilePlace place = place_of_block(work);
  wait_for_inputs();
  let_next_start();
  const int2 pieces = pieces_of(work, place);
  fetch_queries(work, place, room.queries);
  LongPiece piece = piece_of(work, place, pieces.x);
  fetch_rows(piece.keys, piece.stride, piece.live, work.head_dim, room.keys);
  fetch_rows(piece.values, piece.stride, piece.live, work.head_dim, room.values);
  wait_for_copies<2>();
  __syncthreads();
  LongRows rows;
  keep_queries(room, warp, rows);
  for (int index = pieces.x; index < pieces.y; ++index) {
    wait_for_copies<1>();  // the keys; the values may be on their way
    __syncthreads();
    score_part(room, rows, warp, lane, room.parts[warp]);
    __syncthreads();
    const LongPiece next = index + 1 < pieces.y ? piece_of(work, place, index + 1) : piece;
    if (index + 1 < pieces.y) fetch_rows(next.keys, next.stride, next.live, work.head_dim, room.keys);
    add_parts(work, place, piece, room);
    if (index + 1 < pieces.y)
      wait_for_copies<1>();  // the values; the next keys may be on their way
    else
      wait_for_copies<0>();
    __syncthreads();
    mix(room, work.scale, warp, lane, rows);
    __syncthreads();
    if (index + 1 < pieces.y) fetch_rows(next.values, next.stride, next.live, work.head_dim, room.values);
    piece = next;
  }
  write(work, place, warp, lane, rows);
}

/// Ranges of the scores of calibrated slots. A thread sees one slot of every piece, of two rows; sixteen share a row.
struct LongRanges {
  static constexpr int kRounds = kRows * kTileSlots / kThreads;
  ScoreRange ranges[kRounds];
  int seen[kRounds] = {};

  __device__ static int row_of(int round) { return (static_cast<int>(threadIdx.x) + round * kThreads) / kTileSlots; }
  __device__ void add(const RowsWork& work, const TilePlace& place, const LongPiece& piece, const LongRoom& room) {
    const int slot = static_cast<int>(threadIdx.x) % kTileSlots;
#pragma unroll
    for (int i = 0; i < kRounds; ++i) {
      if (!piece.calibrated || !sees(work, place, piece, place.tile_row + row_of(i), slot)) continue;
      ranges[i].add(sum_of_parts(room, row_of(i), slot));
      ++seen[i];
    }
  }
  __device__ void write(const RowsWork& work, const TilePlace& place) {
#pragma unroll
    for (int i = 0; i < kRounds; ++i) {
      for (int offset = 1; offset < kTileSlots; offset *= 2) {
        ranges[i].add({__shfl_xor_sync(0xFFFFFFFFu, ranges[i].low, offset),
                       __shfl_xor_sync(0xFFFFFFFFu, ranges[i].high, offset)});
        seen[i] += __shfl_xor_sync(0xFFFFFFFFu, seen[i], offset);
      }
      const int m = place.tile_row + row_of(i);
      if (threadIdx.x % kTileSlots == 0 && m < place.rows) set_calibration(work, place, m, ranges[i], seen[i]);
    }
  }
};

/// Fills work.calibration.rows: see attend_rows_calibrate.cuh.
__global__ void __launch_bounds__(kThreads) measure_long(const __grid_constant__ RowsWork work) {
  extern __shared__ __align__(16) std::byte shared[];
  LongRoom& room = *reinterpret_cast<LongRoom*>(shared);
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  const TilePlace place = place_of_block(work);
  wait_for_inputs();
  let_next_start();
  fetch_queries(work, place, room.queries);
  wait_for_copies<0>();
  __syncthreads();
  LongRows rows;
  keep_queries(room, warp, rows);
  LongRanges ranges;
  for (int index = 0; index < work.run_count; ++index) {
    const LongPiece piece = piece_of(work, place, index);
    fetch_rows(piece.keys, piece.stride, piece.live, work.head_dim, room.keys);
    wait_for_copies<0>();
    __syncthreads();
    score_part(room, rows, warp, lane, room.parts[warp]);
    __syncthreads();
    ranges.add(work, place, piece, room);
  }
  ranges.write(work, place);
}

}  // namespace

void attend_rows_long(RowsWork work, Queue& queue) {
  work.tiles = static_cast<int>(divide_up(int64_t{work.rows} * work.group, kRows));
  const LaunchShape shape{.grid = static_cast<unsigned>(work.tiles * work.heads),
                          .threads = kThreads,
                          .shared_bytes = static_cast<int>(sizeof(LongRoom))};
  if (work.calibration.rows != nullptr) launch<measure_long>(queue, "attend_rows", shape, work);
  launch<attend_long>(queue, "attend_rows", shape, work);
}

}  // namespace ocellus::cuda

// The beginning of every attend_step kernel: a block's piece of the work, its shared memory, and the rotated inputs.
#pragma once

#include <cmath>

#include "kernels/attention/step/f16_tile.cuh"
#include "kernels/attention/step/params.cuh"
#include "kernels/base/device_math.cuh"
#include "kernels/base/launch.cuh"

namespace ocellus::cuda {

/// The part of the work of a block.
struct StepPiece {
  int row, kv_head, first_head, heads;  // query heads first_head .. first_head + heads of all
  int group;                            // group of blocks that combine their results
  bool active, stores;                  // stores: this block's head tile is the one that fills the cache
  int new_tile, new_slot;
  StepSlot start;          // the first slot that the row sees
  int pieces, begin, end;  // the row has this many pieces; tiles of this one
  int warps;               // number of warps that have tiles
};

/// The slot of a row's new token.
__device__ inline StepSlot newest_slot(const StepParams& p, int row) {
  const StepRow& step = p.tiles.steps[row];
  if (p.tiles.window == 0) return {__ldcg(&step.new_tile), __ldcg(&step.new_slot)};
  return ring_slot(__ldcg(&step.position) - __ldcg(p.tiles.ring_starts + row));
}

/// May run before wait_for_inputs(): it does not read stale data of an earlier launch from the L1 cache.
__device__ inline StepPiece find_piece(const StepParams& p, int warps) {
  StepPiece piece;
  const int head_tile = static_cast<int>(blockIdx.y) % p.heads.tiles;
  piece.row = static_cast<int>(blockIdx.z);
  piece.kv_head = static_cast<int>(blockIdx.y) / p.heads.tiles;
  piece.first_head = piece.kv_head * p.heads.shared_by + head_tile * p.heads.per_block;
  piece.heads = min(p.heads.shared_by - head_tile * p.heads.per_block, p.heads.per_block);
  piece.group = static_cast<int>(blockIdx.z * gridDim.y + blockIdx.y);
  piece.stores = head_tile == 0;
  const StepRow& step = p.tiles.steps[piece.row];
  piece.active = __ldcg(&step.active) != 0;
  const StepSlot newest = newest_slot(p, piece.row);
  piece.new_tile = newest.tile;
  piece.new_slot = newest.slot;
  piece.start = window_start(p.tiles.window, newest);
  const int live = piece.new_tile + 1 - piece.start.tile, index = static_cast<int>(blockIdx.x);
  if (p.batch_invariant)
    piece.pieces = static_cast<int>(attend_step_invariant_pieces(live));
  else
    piece.pieces = live <= kAttendStepAlone ? 1 : min(static_cast<int>(gridDim.x), divide_up(live, warps));
  const int share = live / piece.pieces, longer = live % piece.pieces;  // the first `longer` pieces have one tile more
  piece.begin = piece.start.tile + index * share + min(index, longer);
  piece.end = piece.begin + share + (index < longer);
  piece.warps = min(warps, piece.end - piece.begin);
  return piece;
}

/// Common beginning of all blocks.
__device__ inline StepPiece start_piece(const StepParams& p) {
  let_next_start();
  if (!p.cache_settled) wait_for_inputs();
  return find_piece(p, kStepWarps);
}

/// Blocks without work do not wait; a row's first block does, so that the kernel ends after the preceding ones.
__device__ inline bool has_work(const StepPiece& piece) {
  return static_cast<int>(blockIdx.x) < (piece.active ? piece.pieces : 1);
}

template <int kChunks>
struct alignas(16) StepRoom {
  static constexpr int kChannels = kChunks * kChunk;
  __half queries[kStepHeads][kChannels + 8];  // rotated, scaled; zeros after the last head and channel
  __half key[kChannels], value[kChannels];    // key and value of the new slot; padded alike
  float maxima[kStepWarps][kStepHeads], sums[kStepWarps][kStepHeads];
  int is_last;
};

/// Rotates a pair of channels; the same bits in every kernel that does.
__device__ inline float2 turn_pair(const float2& pair, const float2& turn) {
  return {fmaf(pair.x, turn.x, -__fmul_rn(pair.y, turn.y)), fmaf(pair.x, turn.y, __fmul_rn(pair.y, turn.x))};
}

/// A thread's two channels, which rotate together (or are adjacent and stay), and the source of their values.
template <int kChunks>
struct StepPair {
  static constexpr int kPairs = kChunks * kChunk / 2;
  static constexpr int kTogether = kStepThreads / kPairs;  // heads at once
  int first, second, head;                                 // head >= kTogether: nothing to do
  bool inside, turns;
  const __half* query;  // its first head's; key and value: null unless this thread prepares them
  const __half *key, *value;
  const float* angles;

  __device__ StepPair(const StepParams& p, const StepPiece& piece)
      : head(static_cast<int>(threadIdx.x) / kPairs), key(nullptr), value(nullptr) {
    const int index = static_cast<int>(threadIdx.x) % kPairs;
    inside = 2 * index < p.heads.dim;
    turns = index < p.rope.rotated / 2;
    const bool split = turns && p.rope.pairing == RopePairing::kHalves;
    first = split ? index : 2 * index;
    second = split ? index + p.rope.rotated / 2 : 2 * index + 1;
    query = p.rows.query + piece.row * p.rows.query_stride + int64_t{piece.first_head + head} * p.heads.dim;
    angles = p.rows.angles + piece.row * p.rows.angle_stride + 2 * index;
    // The last of the threads that share a pair, which may have no query.
    if (piece.end <= piece.new_tile || head != kTogether - 1) return;
    key = p.rows.key + piece.row * p.rows.key_stride + int64_t{piece.kv_head} * p.heads.dim;
    value = p.rows.value + piece.row * p.rows.value_stride + int64_t{piece.kv_head} * p.heads.dim;
  }
  /// Stores the channels' values, rotated (turn: cosine and sine) and scaled.
  __device__ void store(const __half (&values)[2], float2 turn, float scale, __half* to) const {
    const float2 pair{__half2float(values[0]), __half2float(values[1])}, turned = turns ? turn_pair(pair, turn) : pair;
    to[first] = round_half(turned.x * scale);
    to[second] = round_half(turned.y * scale);
  }
};

/// Returns the keys of an f16 run.
__device__ inline std::byte* keys_of(const KvRun& run, int64_t layer, int64_t kv_head) {
  return load_pointer(run.data) + layer * __ldcg(&run.layer_stride) + kv_head * __ldcg(&run.head_stride);
}

/// Number of slots of a tile that are live in a layer and head.
__device__ inline int live_in(const KvRun& run, const StepParams& p, int kv_head) {
  const int slots = __ldcg(&run.slots), before = __ldcg(&run.counted_before) + __ldcg(&run.first);
  const int32_t* counts = load_pointer(run.counts);
  if (counts == nullptr) return slots;
  return min(max(__ldcg(counts + int64_t{p.layer.index} * p.heads.kv + kv_head) - before, 0), slots);
}

/// Destination of the new slot's key and value of one head; null in blocks that do not store them.
struct NewStepSlot {
  __half* key = nullptr;
  __half* value = nullptr;

  NewStepSlot() = default;
  __device__ NewStepSlot(const StepParams& p, const StepPiece& piece) {
    if (!piece.stores || p.tiles.stored || piece.end <= piece.new_tile) return;
    const KvRun& tile = p.tiles.at(piece.row, piece.new_tile);
    std::byte* keys = keys_of(tile, p.layer.index, piece.kv_head);
    const int64_t slot = int64_t{piece.new_slot} * p.heads.dim;
    key = reinterpret_cast<__half*>(keys) + slot;
    value = reinterpret_cast<__half*>(keys + __ldcg(&tile.value_offset)) + slot;
  }
};

/// Puts the queries and, if it is in this piece, the new slot into the room, and the latter into the cache. All loads
/// are issued before the first is waited for.
template <int kChunks>
__device__ void prepare_inputs(const StepParams& p, const StepPiece& piece, const StepPair<kChunks>& pair,
                               const NewStepSlot& slot, StepRoom<kChunks>& room) {
  constexpr int kTogether = StepPair<kChunks>::kTogether, kRounds = kStepHeads / kTogether;
  static_assert(kTogether * kRounds == kStepHeads);
  if (pair.head >= kTogether) return;
  __half queries[kRounds][2], key[2], value[2];
  const bool prepares_new = pair.key != nullptr, wants_new = prepares_new && pair.inside;
  const float2 turn{load_if(pair.turns, pair.angles), load_if(pair.turns, pair.angles + 1)};
#pragma unroll
  for (int i = 0; i < kRounds; ++i) {
    const bool wanted = pair.inside && pair.head + i * kTogether < piece.heads;
    queries[i][0] = load_if(wanted, pair.query + i * kTogether * p.heads.dim + pair.first);
    queries[i][1] = load_if(wanted, pair.query + i * kTogether * p.heads.dim + pair.second);
  }
  key[0] = load_if(wants_new, pair.key + pair.first);
  key[1] = load_if(wants_new, pair.key + pair.second);
  value[0] = load_if(wants_new, pair.value + pair.first);
  value[1] = load_if(wants_new, pair.value + pair.second);
#pragma unroll
  for (int i = 0; i < kRounds; ++i)
    pair.store(queries[i], turn, p.heads.scale, room.queries[pair.head + i * kTogether]);
  if (!prepares_new) return;
  pair.store(key, turn, 1.0f, room.key);
  room.value[pair.first] = value[0];
  room.value[pair.second] = value[1];
  if (!pair.inside || slot.key == nullptr) return;
  pair.store(key, turn, 1.0f, slot.key);
  slot.value[pair.first] = value[0];
  slot.value[pair.second] = value[1];
}

}  // namespace ocellus::cuda

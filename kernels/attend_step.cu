// One kernel per decode step and layer. A block takes a piece of one row's tiles for one key/value head and up to
// kHeads of its query heads; the block of a row that is done last puts the row's pieces together.
#include <cmath>

#include "kernels/attend_step.h"
#include "kernels/attend_step_plan.h"
#include "kernels/attend_step_tile.cuh"
#include "kernels/backends.h"
#include "kernels/device_math.cuh"
#include "kernels/launch.cuh"

namespace ocellus {
namespace cuda {
namespace {

constexpr int kHeads = static_cast<int>(kAttendStepHeads);
constexpr int kWarps = static_cast<int>(kAttendStepWarps);
constexpr int kThreads = kWarps * kWarp;

struct StepParams {
  const __half* query;
  const __half* key;
  const __half* value;
  int64_t query_stride, key_stride, value_stride;
  const float* angles;
  int64_t angle_stride;
  const StepRow* steps;
  const KvRun* tiles;
  int64_t tiles_per_row;
  __half* output;
  int64_t output_stride;
  float4* mixed;            // [groups, pieces, heads, E / 4]
  float2* weighed;          // [groups, pieces, heads]: largest score, sum of weights
  uint32_t* done;           // [groups]
  float scale;              // of queries, so that scores are powers of two: exp(x) = 2^(x log2 e)
  int shared_by, head_dim;  // query heads per key/value head
  int heads, head_tiles;
  int rotated, layer;
  RopePairing pairing;
  bool cache_settled;
};

/// What a block computes.
struct Piece {
  int row, kv_head, first_head, heads;  // query heads first_head .. first_head + heads of all
  int group;                            // of blocks that meet at the end
  bool active, stores;                  // stores: this block's head tile is the one that fills the cache
  int new_tile, new_slot;
  int pieces, begin, end;  // the row has this many pieces; tiles of this one
  int warps;               // that have tiles
};

/// May run before wait_for_inputs(): what an earlier launch left in the first-level cache is not looked at.
__device__ Piece find_piece(const StepParams& p, int warps) {
  Piece piece;
  const int head_tile = static_cast<int>(blockIdx.y) % p.head_tiles;
  piece.row = static_cast<int>(blockIdx.z);
  piece.kv_head = static_cast<int>(blockIdx.y) / p.head_tiles;
  piece.first_head = piece.kv_head * p.shared_by + head_tile * kHeads;
  piece.heads = min(p.shared_by - head_tile * kHeads, kHeads);
  piece.group = static_cast<int>(blockIdx.z * gridDim.y + blockIdx.y);
  piece.stores = head_tile == 0;
  const StepRow& step = p.steps[piece.row];
  piece.active = __ldcg(&step.active) != 0;
  piece.new_tile = __ldcg(&step.new_tile);
  piece.new_slot = __ldcg(&step.new_slot);
  const int live = piece.new_tile + 1, index = static_cast<int>(blockIdx.x);
  piece.pieces = live <= kAttendStepAlone ? 1 : min(static_cast<int>(gridDim.x), (live + warps - 1) / warps);
  const int share = live / piece.pieces, longer = live % piece.pieces;  // the first `longer` pieces have one tile more
  piece.begin = index * share + min(index, longer);
  piece.end = piece.begin + share + (index < longer);
  piece.warps = min(warps, piece.end - piece.begin);
  return piece;
}

template <int kChunks>
struct alignas(16) Room {
  static constexpr int kChannels = kChunks * kChunk;
  __half queries[kHeads][kChannels + 8];    // rotated, scaled; zeros behind the last head and channel
  __half key[kChannels], value[kChannels];  // of the new slot; likewise
  float maxima[kWarps][kHeads], sums[kWarps][kHeads];
  int is_last;
};

/// A thread's two channels, which rotate together (or lie side by side and stay), and where their values come from.
template <int kChunks>
struct Pair {
  static constexpr int kPairs = kChunks * kChunk / 2;
  static constexpr int kTogether = kThreads / kPairs;  // heads at once
  int first, second, head;                             // kTogether heads and more: nothing to do
  bool inside, turns;
  const __half* query;  // of its first head; key and value: null unless this thread prepares them
  const __half *key, *value;
  const float* angles;

  __device__ Pair(const StepParams& p, const Piece& piece)
      : head(static_cast<int>(threadIdx.x) / kPairs), key(nullptr), value(nullptr) {
    const int index = static_cast<int>(threadIdx.x) % kPairs;
    inside = 2 * index < p.head_dim;
    turns = index < p.rotated / 2;
    const bool split = turns && p.pairing == RopePairing::kHalves;
    first = split ? index : 2 * index;
    second = split ? index + p.rotated / 2 : 2 * index + 1;
    query = p.query + piece.row * p.query_stride + int64_t{piece.first_head + head} * p.head_dim;
    angles = p.angles + piece.row * p.angle_stride + 2 * index;
    // The last of the threads that share a pair, which may have no query.
    if (piece.end <= piece.new_tile || head != kTogether - 1) return;
    key = p.key + piece.row * p.key_stride + int64_t{piece.kv_head} * p.head_dim;
    value = p.value + piece.row * p.value_stride + int64_t{piece.kv_head} * p.head_dim;
  }
  /// Stores the channels' values, rotated (turn: cosine and sine) and scaled.
  __device__ void store(const __half (&values)[2], float2 turn, float scale, __half* to) const {
    const float x = __half2float(values[0]), y = __half2float(values[1]);
    to[first] = round_half((turns ? x * turn.x - y * turn.y : x) * scale);
    to[second] = round_half((turns ? x * turn.y + y * turn.x : y) * scale);
  }
};

__device__ inline std::byte* keys_of(const KvRun& run, int64_t layer, int64_t kv_head) {
  std::byte* data = reinterpret_cast<std::byte*>(__ldcg(reinterpret_cast<const unsigned long long*>(&run.data)));
  return data + layer * __ldcg(&run.layer_stride) + kv_head * __ldcg(&run.head_stride);
}

/// Where the new slot's key and value of one head go; null in blocks that do not store them.
struct NewSlot {
  __half* key = nullptr;
  __half* value = nullptr;

  __device__ NewSlot(const StepParams& p, const Piece& piece) {
    if (!piece.stores || piece.end <= piece.new_tile) return;
    const KvRun& tile = p.tiles[piece.row * p.tiles_per_row + piece.new_tile];
    std::byte* keys = keys_of(tile, p.layer, piece.kv_head);
    const int64_t slot = int64_t{piece.new_slot} * p.head_dim;
    key = reinterpret_cast<__half*>(keys) + slot;
    value = reinterpret_cast<__half*>(keys + __ldcg(&tile.value_offset)) + slot;
  }
};

/// Puts the queries and, if it is this piece's, the new slot into the room, and the latter into the cache. All loads
/// are under way before the first is waited for.
template <int kChunks>
__device__ void prepare_inputs(const StepParams& p, const Piece& piece, const Pair<kChunks>& pair, const NewSlot& slot,
                               Room<kChunks>& room) {
  constexpr int kTogether = Pair<kChunks>::kTogether, kRounds = kHeads / kTogether;
  static_assert(kTogether * kRounds == kHeads);
  if (pair.head >= kTogether) return;
  __half queries[kRounds][2], key[2], value[2];
  const bool prepares_new = pair.key != nullptr, wants_new = prepares_new && pair.inside;
  const float2 turn{load_if(pair.turns, pair.angles), load_if(pair.turns, pair.angles + 1)};
#pragma unroll
  for (int i = 0; i < kRounds; ++i) {
    const bool wanted = pair.inside && pair.head + i * kTogether < piece.heads;
    queries[i][0] = load_if(wanted, pair.query + i * kTogether * p.head_dim + pair.first);
    queries[i][1] = load_if(wanted, pair.query + i * kTogether * p.head_dim + pair.second);
  }
  key[0] = load_if(wants_new, pair.key + pair.first);
  key[1] = load_if(wants_new, pair.key + pair.second);
  value[0] = load_if(wants_new, pair.value + pair.first);
  value[1] = load_if(wants_new, pair.value + pair.second);
#pragma unroll
  for (int i = 0; i < kRounds; ++i) pair.store(queries[i], turn, p.scale, room.queries[pair.head + i * kTogether]);
  if (!prepares_new) return;
  pair.store(key, turn, 1.0f, room.key);
  room.value[pair.first] = value[0];
  room.value[pair.second] = value[1];
  if (!pair.inside || slot.key == nullptr) return;
  pair.store(key, turn, 1.0f, slot.key);
  slot.value[pair.first] = value[0];
  slot.value[pair.second] = value[1];
}

/// Begins to bring memory that is read soon to the second-level cache. From compute capability 9.0 on; `bytes` a
/// multiple of 16.
__device__ inline void fetch_ahead([[maybe_unused]] const std::byte* from, [[maybe_unused]] int bytes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;\n" ::"l"(__cvta_generic_to_global(from)), "r"(bytes)
               : "memory");
#endif
}

/// The tiles of one warp: every kWarps-th of the piece. Each lane reads the entry of one of the next 32.
class TileWalk {
 public:
  __device__ TileWalk(const StepParams& p, const Piece& piece, int warp, int lane)
      : tiles_(p.tiles + piece.row * p.tiles_per_row),
        layer_(p.layer),
        kv_head_(piece.kv_head),
        new_tile_(piece.new_tile),
        new_slot_(piece.new_slot),
        end_(piece.end),
        lane_tile_(piece.begin + warp + lane * kWarps) {}

  /// Called for 0, 1, 2 ... in turn by all lanes together. No slots behind the last tile.
  __device__ TileSlots at(int index) {
    if (index % kWarp == 0) read_entries();
    const int source = index % kWarp;
    const auto keys = reinterpret_cast<unsigned long long>(mine_.keys);
    return {reinterpret_cast<const std::byte*>(__shfl_sync(0xFFFFFFFFu, keys, source)),
            __shfl_sync(0xFFFFFFFFu, mine_.value_offset, source), __shfl_sync(0xFFFFFFFFu, mine_.count, source)};
  }
  /// After at(0), if there are at most 32 tiles: those behind the first come nearer.
  __device__ void fetch_rest(int dim, int lane) const {
    if (lane == 0 || mine_.count == 0) return;
    fetch_ahead(mine_.keys, 2 * dim * mine_.count);
    fetch_ahead(mine_.keys + mine_.value_offset, 2 * dim * mine_.count);
  }

 private:
  __device__ void read_entries() {
    mine_ = {nullptr, 0, 0};
    if (lane_tile_ < end_) {
      const KvRun& run = tiles_[lane_tile_];
      mine_.keys = keys_of(run, layer_, kv_head_);
      mine_.value_offset = __ldcg(&run.value_offset);
      mine_.count = __ldcg(&run.slots);
      if (lane_tile_ == new_tile_) mine_.count = new_slot_;
    }
    lane_tile_ += kWarp * kWarps;
  }

  const KvRun* tiles_;
  int64_t layer_, kv_head_;
  int new_tile_, new_slot_, end_, lane_tile_;
  TileSlots mine_;
};

/// Counts to `last` and around to 0; returns the count before. Orders what the block wrote before it, and what it reads
/// after it, against the other blocks.
__device__ inline uint32_t count_up(uint32_t* counter, uint32_t last) {
  uint32_t before;
  asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;\n"
               : "=r"(before)
               : "l"(__cvta_generic_to_global(counter)), "r"(last)
               : "memory");
  return before;
}

__device__ inline void add_scaled(float4& sum, float by, const float4& x) {
  sum.x += by * x.x;
  sum.y += by * x.y;
  sum.z += by * x.z;
  sum.w += by * x.w;
}
__device__ inline void store_output(__half* to, const float4& mixed, float sum) {
  const float by = 1.0f / sum;
  to[0] = round_half(mixed.x * by);
  to[1] = round_half(mixed.y * by);
  to[2] = round_half(mixed.z * by);
  to[3] = round_half(mixed.w * by);
}

/// Puts a warp's sums, relative to its own maximum, into its part of `shared` [warps, heads, E / 4 + 1].
template <int kChunks>
__device__ void gather_warp(const Attended<kChunks>& attended, const Piece& piece, int dim, int warp, int row,
                            int column, Room<kChunks>& room, float4* shared) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int head = 2 * column + h;
    const float sum = sum_of_rows(attended.sum[h]);
    if (row == 0) {
      room.maxima[warp][head] = attended.maximum[h];
      room.sums[warp][head] = sum;
    }
    float4* to = shared + (warp * piece.heads + head) * (dim / 4 + 1) + 2 * row;
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      if (head >= piece.heads || kChunk * i + 8 * row >= dim) continue;
      const auto& x = attended.mixed[i];
      to[kChunk / 4 * i] = make_float4(x[0][h], x[0][2 + h], x[1][h], x[1][2 + h]);
      to[kChunk / 4 * i + 1] = make_float4(x[2][h], x[2][2 + h], x[3][h], x[3][2 + h]);
    }
  }
}

/// The block's result, relative to its maximum: the output if the row has one piece, else what combine_pieces reads.
template <int kChunks>
__device__ void finish_piece(const StepParams& p, const Piece& piece, const Room<kChunks>& room, const float4* shared) {
  const int units = p.head_dim / 4;
  const int64_t first = (int64_t{piece.group} * gridDim.x + blockIdx.x) * p.heads;
  for (int item = static_cast<int>(threadIdx.x); item < piece.heads * units; item += kThreads) {
    const int head = item / units, unit = item % units;
    // Warps without tiles left nothing: the last one that did is read again, and counts no more.
    float maximum = kNoScore, sum = 0.0f;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) maximum = fmaxf(maximum, room.maxima[min(w, piece.warps - 1)][head]);
    float4 mixed{};
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      const int from = min(w, piece.warps - 1);
      const float factor = w == from ? exp2_of(room.maxima[from][head] - maximum) : 0.0f;
      sum += room.sums[from][head] * factor;
      add_scaled(mixed, factor, shared[(from * piece.heads + head) * (units + 1) + unit]);
    }
    if (piece.pieces == 1) {
      store_output(p.output + piece.row * p.output_stride + int64_t{piece.first_head} * p.head_dim + 4 * item, mixed,
                   sum);
      continue;
    }
    p.mixed[(first + head) * units + unit] = mixed;
    if (unit == 0) p.weighed[first + head] = make_float2(maximum, sum);
  }
}

/// True in the row's last block to come here: all pieces are there to be read. Sets the counter back.
__device__ bool all_pieces_done(const StepParams& p, const Piece& piece, int* is_last) {
  __syncthreads();
  if (threadIdx.x == 0) {
    const uint32_t last = static_cast<uint32_t>(piece.pieces) - 1;
    *is_last = count_up(p.done + piece.group, last) == last;
  }
  __syncthreads();
  return *is_last != 0;
}

/// The row's pieces, always in the same order.
__device__ void combine_pieces(const StepParams& p, const Piece& piece) {
  constexpr int kTogether = 8;
  const int units = p.head_dim / 4;
  for (int item = static_cast<int>(threadIdx.x); item < piece.heads * units; item += kThreads) {
    const int64_t first = int64_t{piece.group} * gridDim.x * p.heads + item / units;
    float maximum = kNoScore, sum = 0.0f;
    float4 mixed{};
    for (int begin = 0; begin < piece.pieces; begin += kTogether) {
      float2 weighed[kTogether];
      float4 parts[kTogether];
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        const int64_t from = first + int64_t{min(begin + i, piece.pieces - 1)} * p.heads;
        weighed[i] = __ldcg(p.weighed + from);
        parts[i] = __ldcg(p.mixed + from * units + item % units);
      }
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        const bool repeated = begin + i >= piece.pieces;
        const float larger = fmaxf(maximum, weighed[i].x);
        const float earlier = exp2_of(maximum - larger), factor = repeated ? 0.0f : exp2_of(weighed[i].x - larger);
        maximum = larger;
        sum = sum * earlier + weighed[i].y * factor;
        mixed = make_float4(mixed.x * earlier, mixed.y * earlier, mixed.z * earlier, mixed.w * earlier);
        add_scaled(mixed, factor, parts[i]);
      }
    }
    store_output(p.output + piece.row * p.output_stride + int64_t{piece.first_head} * p.head_dim + 4 * item, mixed,
                 sum);
  }
}

__device__ void clear_output(const StepParams& p, const Piece& piece) {
  __half* output = p.output + piece.row * p.output_stride + int64_t{piece.first_head} * p.head_dim;
  for (int i = static_cast<int>(threadIdx.x); i < piece.heads * p.head_dim; i += kThreads)
    output[i] = __float2half_rn(0.0f);
}

/// Grid: pieces, key/value heads times head tiles, rows.
template <int kChunks>
__global__ void __launch_bounds__(kThreads, static_cast<int>(attend_step_residents(kChunks* kChunk)))
    attend_piece(const StepParams p) {
  extern __shared__ float4 shared[];
  __shared__ Room<kChunks> room;
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  const int row = lane / 4, column = lane % 4, dim = p.head_dim;
  let_next_start();
  if (!p.cache_settled) wait_for_inputs();
  const Piece piece = find_piece(p, kWarps);
  // Blocks without work do not wait: a row's first block does, so that the kernel ends after those before it.
  if (static_cast<int>(blockIdx.x) >= (piece.active ? piece.pieces : 1)) return;
  if (!piece.active) {
    wait_for_inputs();
    return clear_output(p, piece);
  }

  const NewSlot new_slot(p, piece);
  const Pair<kChunks> pair(p, piece);
  TileWalk walk(p, piece, warp, lane);
  TileSlots slots = walk.at(0);
  Tile<kChunks> tile;
  tile.load_keys(slots, dim, row, column);
  tile.load_values(slots, dim, row, column);
  if (piece.end - piece.begin <= kAttendStepAlone) walk.fetch_rest(dim, lane);
  // If the cache is settled, the above goes on while the kernels before end; what follows reads what they write, or
  // writes.
  wait_for_inputs();
  prepare_inputs(p, piece, pair, new_slot, room);
  __syncthreads();
  uint4 queries[2 * kChunks];
#pragma unroll
  for (int i = 0; i < 2 * kChunks; ++i)
    queries[i] = *reinterpret_cast<const uint4*>(&room.queries[row][32 * i + 8 * column]);

  Attended<kChunks> attended;
  for (int i = 0, index = piece.begin + warp; index < piece.end; ++i, index += kWarps) {
    const bool has_new = index == piece.new_tile;
    if (has_new) tile.fill_in(room.key, room.value, piece.new_slot, row, column);
    float scores[4];
    score<kChunks>(tile.keys, queries, slots.count + has_new, row, scores);
    // The next tile is under way while this one is worked on.
    slots = walk.at(i + 1);
    tile.load_keys(slots, dim, row, column);
    uint32_t weights[2];
    attended.weigh(scores, weights);
    attended.mix(tile.values, weights);
    tile.load_values(slots, dim, row, column);
  }
  if (warp < piece.warps) gather_warp(attended, piece, dim, warp, row, column, room, shared);
  __syncthreads();
  finish_piece(p, piece, room, shared);
  if (piece.pieces > 1 && all_pieces_done(p, piece, &room.is_last)) combine_pieces(p, piece);
}

StepParams params_of(const AttendStepArgs& args, const AttendStepPlan& plan) {
  const int64_t dim = args.head_dim, groups = plan.groups(args.query.rows, args.kv_heads);
  const int64_t blocks = groups * plan.pieces;
  StepParams p{};
  p.query = static_cast<const __half*>(args.query.data);
  p.key = static_cast<const __half*>(args.key.data);
  p.value = static_cast<const __half*>(args.value.data);
  p.query_stride = args.query.stride;
  p.key_stride = args.key.stride;
  p.value_stride = args.value.stride;
  p.angles = args.angles.data;
  p.angle_stride = args.angles.stride;
  p.steps = args.steps;
  p.tiles = args.tiles;
  p.tiles_per_row = args.tiles_per_row;
  p.output = static_cast<__half*>(args.output.data);
  p.output_stride = args.output.stride;
  const int64_t counters = args.scratch.rows * args.scratch.cols - AttendStepScratch::counters_bytes(groups);
  p.mixed = reinterpret_cast<float4*>(args.scratch.data);
  p.weighed = reinterpret_cast<float2*>(p.mixed + blocks * plan.heads * dim / 4);
  p.done = reinterpret_cast<uint32_t*>(args.scratch.data + counters);
  p.scale = 1.44269504f / std::sqrt(static_cast<float>(dim));
  p.shared_by = args.query_heads / args.kv_heads;
  p.head_dim = args.head_dim;
  p.heads = static_cast<int>(plan.heads);
  p.head_tiles = static_cast<int>(plan.head_tiles);
  p.rotated = args.rope.rotated;
  p.layer = args.layer;
  p.pairing = args.rope.pairing;
  p.cache_settled = args.cache_settled;
  return p;
}

template <int kChunks>
void launch_pieces(const StepParams& params, const AttendStepArgs& args, const AttendStepPlan& plan, Queue& queue) {
  const LaunchShape shape{
      .grid = dim3(static_cast<unsigned>(plan.pieces), static_cast<unsigned>(args.kv_heads * plan.head_tiles),
                   static_cast<unsigned>(args.query.rows)),
      .threads = kThreads,
      .shared_bytes = static_cast<int>(kWarps * plan.heads * (args.head_dim / 4 + 1) * int64_t{sizeof(float4)})};
  launch<attend_piece<kChunks>>(queue, "attend_step", shape, params);
}

}  // namespace

void attend_step(const AttendStepArgs& args, Queue& queue) {
  const int64_t rows = args.query.rows, dim = args.head_dim;
  if (!queue.ok() || rows == 0) return;
  const AttendStepPlan plan = plan_attend_step(rows, args.most_tiles, args.query_heads, args.kv_heads, dim,
                                               queue.cuda()->facts().multiprocessors);
  const int64_t given = args.scratch.rows * args.scratch.cols;
  const int64_t needed = AttendStepScratch::bytes(plan, rows, args.kv_heads, dim);
  if (given < needed) {
    return queue.fail(OCELLUS_FAIL(Code::kInternal, "attend_step got %lld bytes of scratch instead of %lld",
                                   static_cast<long long>(given), static_cast<long long>(needed)));
  }
  const StepParams params = params_of(args, plan);
  switch (divide_up(dim, kChunk)) {
    case 1: return launch_pieces<1>(params, args, plan, queue);
    case 2: return launch_pieces<2>(params, args, plan, queue);
    case 3: return launch_pieces<3>(params, args, plan, queue);
    default: return launch_pieces<4>(params, args, plan, queue);
  }
}

}  // namespace cuda
}  // namespace ocellus

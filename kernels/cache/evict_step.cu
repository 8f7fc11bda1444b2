#include "kernels/backends.h"
#include "kernels/base/code_units.cuh"
#include "kernels/base/device_math.cuh"
#include "kernels/base/launch.cuh"
#include "kernels/base/row_access.cuh"
#include "kernels/cache/evict_step.h"
#include "quant/kv_scales.h"

namespace ocellus {
namespace cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kUnit = 8;  // values of one 16-byte access
constexpr int kMaxGroup = 64;

/// One row, layer and key/value head. Slots are counted over the tiles: slot i is slot i % each of tile i / each, if
/// that many are live.
struct HeadStep {
  const EvictStepArgs& a;
  const StepRow& step;
  KvRun* tiles;
  int head;
  int each;
  int64_t line;

  __device__ HeadStep(const EvictStepArgs& args, int row, int head_)
      : a(args),
        step(args.tiles.steps[row]),
        tiles(args.tiles.runs + row * args.tiles.per_row),
        head(head_),
        each(evict_tile_slots(args.layer.format)),
        line(int64_t{args.layer.index} * args.heads.kv + head_) {}

  __device__ int slot_count() const { return (step.new_tile + 1) * each; }
  __device__ int newest() const { return step.new_tile * each + step.new_slot; }
  __device__ const KvRun& tile(int i) const { return tiles[i / each]; }
  /// True if slot i is live or the new one.
  __device__ bool lives(int i) const {
    const int slot = i % each;
    if (i / each == step.new_tile) return slot <= step.new_slot;
    return slot < live_slots(tile(i), a.layer.index, a.heads.kv, head);
  }
  __device__ int64_t column(int i) const { return a.ledger.first_slot(tile(i)) + i % each; }
  // Keys and values of slots that are not packed.
  __device__ Half* key(int i) const { return run_keys(tile(i), a.layer.index, head) + i % each * int64_t{a.heads.dim}; }
  __device__ Half* value(int i) const {
    return run_values(tile(i), a.layer.index, head) + i % each * int64_t{a.heads.dim};
  }
  __device__ PackedRows packed(int i) const { return packed_rows(tile(i), a.layer, head, a.heads.dim); }
  __device__ int32_t& position(int i) const {
    return a.ledger.positions.data[line * a.ledger.positions.stride + column(i)];
  }
  __device__ float& sum(int i) const { return a.ledger.sums.data[line * a.ledger.sums.stride + column(i)]; }
  __device__ float& latest(int i) const { return a.ledger.latest.data[line * a.ledger.latest.stride + column(i)]; }
  __device__ bool has_sums() const { return a.ledger.sums.data != nullptr; }

  /// Call it after the sums are updated.
  __device__ uint64_t order(int i) const {
    const int32_t at = position(i);
    if (i == newest() || at == kStays) return kNothingGoes;
    if (!has_sums()) return order_by_age(at);
    return at > step.position - 1 - step.eviction.recent ? kNothingGoes : order_by_sum(sum(i), at);
  }
};

/// The newest token takes slot `to`. All threads call it.
__device__ void take_place(const HeadStep& h, int to) {
  const int from = h.newest(), units = h.a.heads.dim / kUnit;
  for (int unit = static_cast<int>(threadIdx.x); unit < 2 * units; unit += kThreads) {
    const bool is_key = unit < units;
    const int at = (is_key ? unit : unit - units) * kUnit;
    const Half* source = (is_key ? h.key(from) : h.value(from)) + at;
    Half* target = (is_key ? h.key(to) : h.value(to)) + at;
    *reinterpret_cast<uint4*>(target) = *reinterpret_cast<const uint4*>(source);
  }
  if (threadIdx.x != 0) return;
  h.position(to) = h.position(from);
  if (h.has_sums()) h.sum(to) = h.sum(from);
}

/// The last live row of a packed block takes the place of slot `gap` of it. All threads call it.
__device__ void close_gap(const HeadStep& h, int gap) {
  const KvRun& run = h.tile(gap);
  const PackedRows rows = h.packed(gap);
  const int last = run.counts[h.line] - 1 - run.first;  // both counted from the tile's first slot
  const int to = gap % h.each, key_bytes = static_cast<int>(rows.keys.row_bytes);
  for (int i = static_cast<int>(threadIdx.x); i < key_bytes + static_cast<int>(rows.values.row_bytes); i += kThreads) {
    const bool of_keys = i < key_bytes;
    const CodeMatrix& codes = of_keys ? rows.keys : rows.values;
    const int byte = of_keys ? i : i - key_bytes;
    const_cast<uint8_t*>(codes.row(to))[byte] = codes.row(last)[byte];
  }
  __syncthreads();  // all have read the count
  if (threadIdx.x != 0) return;
  live_count(run, h.line) = run.first + last;
  const int64_t from = h.column(gap) - to + last;
  h.position(gap) = h.a.ledger.positions.data[h.line * h.a.ledger.positions.stride + from];
  if (h.has_sums()) h.sum(gap) = h.a.ledger.sums.data[h.line * h.a.ledger.sums.stride + from];
}

/// Gives the newest token a place for good, if its step has found a slot to evict. All threads call it.
__device__ void replace(const HeadStep& h, int victim) {
  if (!h.tile(victim).packed) return take_place(h, victim);
  int slot = 0;
  const int tile = find_spare(h.tiles, h.step.new_tile, h.line, &slot);
  if (tile < 0) return;
  close_gap(h, victim);
  take_place(h, tile * h.each + slot);
  __syncthreads();  // all have read the count
  if (threadIdx.x == 0) ++live_count(h.tiles[tile], h.line);
}

/// A block settles one head of one row.
__global__ void settle(const __grid_constant__ EvictStepArgs a) {
  __shared__ unsigned long long least;
  __shared__ int victim;
  wait_for_inputs();
  let_next_start();
  const HeadStep h(a, static_cast<int>(blockIdx.y), static_cast<int>(blockIdx.x));
  if (h.step.active == 0) return;
  if (threadIdx.x == 0) {
    least = kNothingGoes;
    victim = -1;
  }
  __syncthreads();
  if (h.step.eviction.settles != 0) {
    unsigned long long mine = kNothingGoes;
    int at = -1;
    for (int i = static_cast<int>(threadIdx.x); i < h.slot_count(); i += kThreads) {
      if (!h.lives(i)) continue;
      if (h.has_sums()) h.sum(i) += h.latest(i);
      const unsigned long long order = h.order(i);
      if (order >= mine) continue;
      mine = order;
      at = i;
    }
    if (at >= 0) atomicMin(&least, mine);
    __syncthreads();
    if (at >= 0 && mine == least) victim = at;  // no two rows of a head have the same position
    __syncthreads();
    if (victim >= 0) replace(h, victim);
  }
  if (a.settle_only || threadIdx.x != 0) return;
  h.position(h.newest()) = h.step.position;
  if (h.has_sums()) h.sum(h.newest()) = 0;
  if (h.step.eviction.moves_sinks != 0 && h.head == 0)
    h.tiles[0].position_shift = h.step.position - h.step.eviction.slots;
}

/// Channel e of a head, rotated.
__device__ float rotated(const __half* row, int e, const RopeParams& rope, const float* angles) {
  const float x = __half2float(row[e]);
  if (e >= rope.rotated) return x;
  const int half = rope.rotated / 2;
  const bool adjacent = rope.pairing == RopePairing::kAdjacent;
  const int pair = adjacent ? e / 2 : e % half;
  const bool is_first = adjacent ? e % 2 == 0 : e < half;
  const int other = adjacent ? e ^ 1 : is_first ? e + half : e - half;
  const float y = __half2float(row[other]), c = angles[2 * pair], s = angles[2 * pair + 1];
  return is_first ? x * c - y * s : y * s + x * c;
}

__device__ float dot(const float* query, const Half* key, int dim) {
  float sum = 0;
  for (int e = 0; e < dim; e += kUnit) {
    const uint4 bits = *reinterpret_cast<const uint4*>(key + e);
    const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const float2 pair = __half22float2(reinterpret_cast<const __half2&>(words[k]));
      sum += query[e + 2 * k] * pair.x + query[e + 2 * k + 1] * pair.y;
    }
  }
  return sum;
}

/// Offsets or steps of eight channels of a packed block's keys.
__device__ void load_key_scales(const PackedRows& rows, KvScaleRow row, int e, float (&to)[kUnit]) {
  if (rows.scales != KvScaleForm::k6Bit)
    return load_values(reinterpret_cast<const __half*>(rows.block) + int64_t{row} * rows.head_dim + e, to);
  const __half* ends = reinterpret_cast<const __half*>(rows.block + scale_ends_at(row));
  const float least = __half2float(ends[0]), place = __half2float(ends[1]);
  const auto* codes = reinterpret_cast<const uint8_t*>(rows.block + scale_codes_at(row, rows.head_dim)) + e / 4 * 3;
#pragma unroll
  for (int i = 0; i < kUnit; i += 4, codes += 3) {
    uint8_t each[4];
    get_scale_codes(codes, each);
#pragma unroll
    for (int k = 0; k < 4; ++k)
      to[i + k] = __half2float(__float2half_rn(fmaf(place, static_cast<float>(each[k]), least)));
  }
}

__device__ float dot_codes(const float* query, const PackedRows& rows, int slot) {
  float sum = 0;
  for (int e = 0; e < rows.head_dim; e += kUnit) {
    const uint64_t unit = load_code_unit(rows.keys.row(slot) + e / kCodeUnit * rows.keys.bits, rows.keys.bits);
    float offsets[kUnit], steps[kUnit];
    load_key_scales(rows, kKeyOffsets, e, offsets);
    load_key_scales(rows, kKeySteps, e, steps);
#pragma unroll
    for (int k = 0; k < kUnit; ++k)
      sum += query[e + k] * (offsets[k] + steps[k] * static_cast<float>(code_in_unit(unit, rows.keys.bits, k)));
  }
  return sum;
}

__device__ float* scores_of(const EvictStepArgs& a, int row, int query_head) {
  return reinterpret_cast<float*>(a.scratch.data) +
         (int64_t{row} * a.heads.query + query_head) * a.tiles.most * evict_tile_slots(a.layer.format);
}

/// Scores of a piece of a head's slots, one slot per thread; -infinity for empty ones.
__global__ void score_slots(const __grid_constant__ EvictStepArgs a) {
  extern __shared__ float queries[];  // [group, E], then the new key as f16
  const int row = static_cast<int>(blockIdx.z), dim = a.heads.dim, group = a.heads.query / a.heads.kv;
  wait_for_inputs();
  let_next_start();
  const HeadStep h(a, row, static_cast<int>(blockIdx.y));
  const int i = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (h.step.active == 0 || static_cast<int>(blockIdx.x) * kThreads >= h.slot_count()) return;
  const auto* query = static_cast<const __half*>(a.query.data) + row * a.query.stride + h.head * group * dim;
  const auto* key = static_cast<const __half*>(a.key.data) + row * a.key.stride + h.head * dim;
  const float* angles = a.angles.data + row * a.angles.stride;
  auto* const new_key = reinterpret_cast<__half*>(queries + group * dim);
  for (int e = static_cast<int>(threadIdx.x); e < group * dim; e += kThreads)
    queries[e] = rotated(query + e / dim * dim, e % dim, a.rope, angles);
  for (int e = static_cast<int>(threadIdx.x); e < dim; e += kThreads)
    new_key[e] = round_half(rotated(key, e, a.rope, angles));
  __syncthreads();
  if (i >= h.slot_count()) return;
  const float scale = rsqrtf(static_cast<float>(dim));
  const auto write = [&](auto score) {
    for (int q = 0; q < group; ++q) scores_of(a, row, h.head * group + q)[i] = scale * score(queries + q * dim);
  };
  if (!h.lives(i)) return write([](const float*) { return -INFINITY; });
  if (h.tile(i).packed) {
    const PackedRows rows = h.packed(i);
    return write([&](const float* q) { return dot_codes(q, rows, i % h.each); });
  }
  const Half* slot_key = i == h.newest() ? reinterpret_cast<const Half*>(new_key) : h.key(i);
  write([&](const float* q) { return dot(q, slot_key, dim); });
}

__device__ float block_max(float x, float* room) {
  x = warp_max(x);
  if (threadIdx.x % kWarp == 0) room[threadIdx.x / kWarp] = x;
  __syncthreads();
  return warp_max(threadIdx.x % kWarp < kThreads / kWarp ? room[threadIdx.x % kWarp] : -INFINITY);
}

/// Calibrates one query head's scores of packed slots, if there are two. All threads call it.
__device__ void calibrate(const HeadStep& h, float* scores, float* room) {
  const auto is_packed_slot = [&](int i) { return h.tile(i).packed && h.lives(i); };
  const int first = static_cast<int>(threadIdx.x), count = h.slot_count();
  float low = INFINITY, high = -INFINITY, packed = 0;
  for (int i = first; i < count; i += kThreads) {
    if (!is_packed_slot(i)) continue;
    low = fminf(low, scores[i]);
    high = fmaxf(high, scores[i]);
    packed += 1;
  }
  low = -block_max(-low, room);
  __syncthreads();
  high = block_max(high, room);
  __syncthreads();
  packed = block_sum(packed, room);
  __syncthreads();
  if (packed < 2) return;
  const float slope = h.a.calibration.slope(high - low);
  for (int i = first; i < count; i += kThreads)
    if (is_packed_slot(i)) scores[i] = h.a.calibration.apply(scores[i], low, slope);
  __syncthreads();
}

/// A block converts one head's scores to the attention of its slots.
__global__ void note_attention(const __grid_constant__ EvictStepArgs a) {
  __shared__ float room[kWarp], maxima[kMaxGroup], weights[kMaxGroup];
  const int row = static_cast<int>(blockIdx.y), group = a.heads.query / a.heads.kv;
  wait_for_inputs();
  let_next_start();
  const HeadStep h(a, row, static_cast<int>(blockIdx.x));
  if (h.step.active == 0) return;
  const int count = h.slot_count(), first = static_cast<int>(threadIdx.x);
  for (int q = 0; q < group; ++q) {
    float* const scores = scores_of(a, row, h.head * group + q);
    if (a.calibration.on) calibrate(h, scores, room);
    float most = -INFINITY, sum = 0;
    for (int i = first; i < count; i += kThreads) most = fmaxf(most, scores[i]);
    most = block_max(most, room);
    __syncthreads();
    for (int i = first; i < count; i += kThreads) sum += __expf(scores[i] - most);
    sum = block_sum(sum, room);
    __syncthreads();
    if (first == 0) {
      maxima[q] = most;
      weights[q] = 1.0f / (sum * static_cast<float>(group));
    }
  }
  __syncthreads();
  for (int i = first; i < count; i += kThreads) {
    if (!h.lives(i)) continue;
    float sum = 0;
    for (int q = 0; q < group; ++q) sum += weights[q] * __expf(scores_of(a, row, h.head * group + q)[i] - maxima[q]);
    h.latest(i) = sum;
  }
}

}  // namespace

void evict_step(const EvictStepArgs& a, Queue& queue) {
  const auto rows = static_cast<unsigned>(a.rows), heads = static_cast<unsigned>(a.heads.kv);
  launch<settle>(queue, "evict_step", {.grid = dim3(heads, rows), .threads = kThreads}, a);
  if (a.settle_only || a.ledger.sums.data == nullptr) return;
  const int64_t needed = evict_step_scratch_bytes(a.rows, 0, a.tiles.most, a.heads.query, a.heads.kv, a.heads.dim,
                                                  a.layer.format, queue.traits());
  if (a.scratch.rows * a.scratch.cols < needed)
    return queue.fail(OCELLUS_FAIL(Code::kInternal, "evict_step got %lld bytes of scratch instead of %lld",
                                   static_cast<long long>(a.scratch.rows * a.scratch.cols),
                                   static_cast<long long>(needed)));
  const int group = a.heads.query / a.heads.kv;
  const int shared = group * a.heads.dim * static_cast<int>(sizeof(float)) + a.heads.dim * 2;
  const auto pieces = static_cast<unsigned>(divide_up(a.tiles.most * evict_tile_slots(a.layer.format), kThreads));
  launch<score_slots>(queue, "evict_step",
                      {.grid = dim3(pieces, heads, rows), .threads = kThreads, .shared_bytes = shared}, a);
  launch<note_attention>(queue, "evict_step", {.grid = dim3(heads, rows), .threads = kThreads}, a);
}

}  // namespace cuda
}  // namespace ocellus

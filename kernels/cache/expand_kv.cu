#include <algorithm>
#include <cstring>

#include "kernels/backends.h"
#include "kernels/base/code_units.cuh"
#include "kernels/base/device_math.cuh"
#include "kernels/base/launch.cuh"
#include "kernels/base/row_access.cuh"
#include "kernels/cache/expand_kv.h"
#include "kernels/rows/rope_angles.cuh"
#include "quant/kv_scales.h"

namespace ocellus {
namespace cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kUnit = kCodeUnit;            // channels of one 16-byte access
constexpr int kMaxPairs = kMaxHeadDim / 2;  // pairs of channels that rotate together

/// The keys or the values of one head of a run: f16, or codes.
struct RunRows {
  const __half* halves;  // null: codes
  const __half* offsets;
  const __half* steps;
  const __half2* by_token;  // null: offsets and steps are by channel
  const uint8_t* codes;
  int bits, dim;

  /// `small` has room for two rows of scales, which load_scales fills if they are coded.
  __device__ RunRows(const KvRun& run, const KvLayer& layer, int head, int head_dim, bool of_values, __half* small)
      : halves(nullptr),
        by_token(nullptr),
        bits(of_values ? value_bits(layer.format) : key_bits(layer.format)),
        dim(head_dim) {
    if (run.packed) {
      const PackedRows packed = packed_rows(run, layer, head, dim);
      const bool coded = packed.scales == KvScaleForm::k6Bit;
      if (of_values && packed.by_token()) by_token = reinterpret_cast<const __half2*>(packed.token_scales(0));
      const __half* scales = reinterpret_cast<const __half*>(packed.block);
      offsets = coded ? small : scales + (of_values ? kValueOffsets : kKeyOffsets) * dim;
      steps = coded ? small + dim : scales + (of_values ? kValueSteps : kKeySteps) * dim;
      codes = (of_values ? packed.values : packed.keys).data;
    } else {
      halves = reinterpret_cast<const __half*>(of_values ? run_values(run, layer.index, head)
                                                         : run_keys(run, layer.index, head));
    }
  }
  /// Channels [channel, channel + kUnit) of a slot.
  __device__ void load_unit(int slot, int channel, float (&to)[kUnit]) const {
    if (halves != nullptr) return load_values(halves + slot * dim + channel, to);
    const uint64_t unit = load_code_unit(codes + (slot * dim + channel) / kUnit * bits, bits);
    float offset[kUnit], step[kUnit];
    load_scales(slot, channel, offset, step);
#pragma unroll
    for (int i = 0; i < kUnit; ++i)
      to[i] = offset[i] + step[i] * static_cast<float>(code_in_unit(unit, bits, i));  // the product is exact
  }
  /// Loads from keys.
  __device__ float load(int slot, int channel) const {
    if (halves != nullptr) return __half2float(halves[slot * dim + channel]);
    const int at = (slot * dim + channel) * bits;
    const int code = codes[at / 8] >> (8 - bits - at % 8) & ((1 << bits) - 1);
    return __half2float(offsets[channel]) + __half2float(steps[channel]) * static_cast<float>(code);
  }

 private:
  __device__ void load_scales(int slot, int channel, float (&offset)[kUnit], float (&step)[kUnit]) const {
    if (by_token == nullptr) {
      load_values(offsets + channel, offset);
      load_values(steps + channel, step);
      return;
    }
    const float2 scale = __half22float2(by_token[(slot * dim + channel) / kValueGroup]);
#pragma unroll
    for (int i = 0; i < kUnit; ++i) {
      offset[i] = scale.x;
      step[i] = scale.y;
    }
  }
};

/// Rotates a unit of keys. The other channel of a pair may be in another unit.
__device__ void turn_unit(const RunRows& keys, int slot, int channel, const RopeParams& rope, const float2* turns,
                          float (&values)[kUnit]) {
  const int half = rope.rotated / 2;
  float turned[kUnit];
#pragma unroll
  for (int i = 0; i < kUnit; ++i) {
    const int at = channel + i;
    turned[i] = values[i];
    if (at >= rope.rotated) continue;
    const bool adjacent = rope.pairing == RopePairing::kAdjacent;
    const bool first = adjacent ? i % 2 == 0 : at < half;
    const float other = adjacent ? values[i ^ 1] : keys.load(slot, first ? at + half : at - half);
    const float2 turn = turns[adjacent ? at / 2 : first ? at : at - half];
    turned[i] = first ? values[i] * turn.x - other * turn.y : other * turn.y + values[i] * turn.x;
  }
#pragma unroll
  for (int i = 0; i < kUnit; ++i) values[i] = turned[i];
}

/// Decodes the scales of a packed run's head, if they are coded, in the order of their rows. All threads of the block
/// call it.
__device__ void load_scales(const KvRun& run, const KvLayer& layer, int head, int dim, __half* to) {
  if (!run.packed || layer.scales != KvScaleForm::k6Bit) return;
  const PackedRows packed = packed_rows(run, layer, head, dim);
  __syncthreads();  // the previous head's scales have been read
  for (int i = static_cast<int>(threadIdx.x); i < kKvScaleRows * dim / 4; i += kThreads) {
    const auto row = static_cast<KvScaleRow>(4 * i / dim);
    const __half* ends = reinterpret_cast<const __half*>(packed.block + scale_ends_at(row));
    const float least = __half2float(ends[0]), place = __half2float(ends[1]);
    uint8_t codes[4];
    get_scale_codes(reinterpret_cast<const uint8_t*>(packed.block + scale_codes_at(kKeyOffsets, dim)) + 3 * i, codes);
    for (int k = 0; k < 4; ++k) to[4 * i + k] = __float2half_rn(fmaf(place, static_cast<float>(codes[k]), least));
  }
  __syncthreads();
}

/// A block takes one run, and every gridDim.y-th head of it.
__global__ void __launch_bounds__(kThreads) expand_runs(const __grid_constant__ ExpandKvArgs args, double octaves) {
  __shared__ float2 turns[kMaxPairs];
  __shared__ alignas(16) __half small[kKvScaleRows * kMaxHeadDim];
  wait_for_inputs();
  let_next_start();
  const KvRun& run = args.runs[blockIdx.x];
  const bool turns_keys = run.position_shift != 0;
  if (turns_keys) {
    for (int pair = static_cast<int>(threadIdx.x); pair < args.rope.rotated / 2; pair += kThreads)
      turns[pair] = turn_at(run.position_shift, angle_step(args.rope, octaves, pair));
    __syncthreads();
  }
  const int dim = args.out.head_dim, head_units = dim / kUnit;
  for (int head = static_cast<int>(blockIdx.y); head < args.out.heads; head += static_cast<int>(gridDim.y)) {
    load_scales(run, args.layer, head, dim, small);
    const RunRows keys(run, args.layer, head, dim, false, small);
    const RunRows values(run, args.layer, head, dim, true, small + kValueOffsets * dim);
    const int slots = min(live_slots(run, args.layer.index, args.out.heads, head), static_cast<int>(args.rows_per_run));
    for (int i = static_cast<int>(threadIdx.x); i < slots * head_units; i += kThreads) {
      const int slot = i / head_units, channel = i % head_units * kUnit;
      float key[kUnit], value[kUnit];
      keys.load_unit(slot, channel, key);
      values.load_unit(slot, channel, value);
      if (turns_keys) turn_unit(keys, slot, channel, args.rope, turns, key);
      const int64_t to = args.out.at(args.first_row(blockIdx.x) + slot, head) + channel;
      store_values(reinterpret_cast<__half*>(args.out.keys) + to, key);
      store_values(reinterpret_cast<__half*>(args.out.values) + to, value);
    }
  }
}

}  // namespace

void expand_kv(const ExpandKvArgs& args, Queue& queue) {
  if (args.run_count == 0) return;
  if (args.out.capacity < args.most_rows() || args.rope.rotated > 2 * kMaxPairs) {
    return queue.fail(OCELLUS_FAIL(Code::kInternal, "expand_kv got %d runs for %lld rows, %d channels rotated",
                                   args.run_count, static_cast<long long>(args.out.capacity), args.rope.rotated));
  }
  // Heads of a run share its angles if there are enough blocks without separating them.
  const int wanted = 4 * queue.cuda()->facts().multiprocessors;
  const int head_blocks = std::clamp<int>(static_cast<int>(divide_up(wanted, args.run_count)), 1, args.out.heads);
  const dim3 grid(static_cast<unsigned>(args.run_count), static_cast<unsigned>(head_blocks));
  launch<expand_runs>(queue, "expand_kv", {.grid = grid, .threads = kThreads}, args, octaves_per_pair(args.rope));
}

}  // namespace cuda
}  // namespace ocellus

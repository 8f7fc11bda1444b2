// Channels are independent, so a block of threads takes a slice of them: of the keys or the values of one head and job.
// It reads all rows that set the scales, then packs its part of the rows. The parts of a slice each compute the scales,
// which costs less than a second kernel: the rows come from the L2 cache, and there are several parts only if blocks
// are few. If scales are coded together with those of the head's other channels, every block reads all channels, for
// the same reason.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/backends.h"
#include "kernels/base/device_math.cuh"
#include "kernels/base/launch.cuh"
#include "kernels/cache/pack_kv.h"
#include "quant/kv_scales.h"

namespace ocellus {
namespace cuda {
namespace {

constexpr int kThreads = 1024;
constexpr int kWarps = kThreads / kWarp;
constexpr int kSlice = 32;  // channels: whole words even of the shortest codes
constexpr int kUnit = 8;    // channels of one 16-byte access
constexpr int kSliceUnits = kSlice / kUnit;
constexpr int kWarpRows = kWarp / kSliceUnits;
constexpr int kRowsAtOnce = kWarps * kWarpRows;
constexpr int kBatch = 4;  // rows that a thread loads together
constexpr int kUnitPairs = kUnit / 2;
constexpr int kMaxParts = 8;
constexpr unsigned short kNanBits = 0x7E00;  // as in float_to_half

/// Place of a thread's reads: its unit of the slice, in rows by their index in the list.
struct SliceRows {
  const __half* unit;  // row 0's
  int64_t row_stride;
  const int32_t* indices;  // the head's list

  __device__ uint4 load(int place) const { return *reinterpret_cast<const uint4*>(unit + indices[place] * row_stride); }
};

/// Minimum and maximum values of a unit's channels. NaN if one of the values is NaN.
struct Extremes {
  __half2 least[kUnitPairs], greatest[kUnitPairs];

  __device__ Extremes() {
#pragma unroll
    for (int i = 0; i < kUnitPairs; ++i) {
      least[i] = __float2half2_rn(INFINITY);
      greatest[i] = __float2half2_rn(-INFINITY);
    }
  }
  __device__ void add(const uint4& unit) {
    __half2 pairs[kUnitPairs];
    memcpy(pairs, &unit, sizeof unit);
#pragma unroll
    for (int i = 0; i < kUnitPairs; ++i) {
      least[i] = __hmin2_nan(least[i], pairs[i]);
      greatest[i] = __hmax2_nan(greatest[i], pairs[i]);
    }
  }
  /// Adds the rows that the warp's other lanes have seen.
  __device__ void add_lanes() {
#pragma unroll
    for (int i = 0; i < kUnitPairs; ++i) {
      for (int offset = kSliceUnits; offset < kWarp; offset *= 2) {
        least[i] = __hmin2_nan(least[i], __shfl_xor_sync(0xFFFFFFFFu, least[i], offset));
        greatest[i] = __hmax2_nan(greatest[i], __shfl_xor_sync(0xFFFFFFFFu, greatest[i], offset));
      }
    }
  }
};

/// Shared memory of a block.
struct SliceRoom {
  __half2 least[kWarps][kSlice / 2], greatest[kWarps][kSlice / 2];
  float offsets[kSlice], steps[kSlice];  // rounded to f16
};

/// Writes the extremes of list entries [first, first + count), by warps, to the room.
__device__ void find_extremes(const SliceRows& rows, int first, int count, SliceRoom& room) {
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kWarp, warp = thread / kWarp;
  Extremes extremes;
  // A row may be read twice: unconditional loads are issued together.
  for (int row = thread / kSliceUnits; row < count; row += kRowsAtOnce * kBatch) {
    uint4 units[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) units[i] = rows.load(first + min(row + i * kRowsAtOnce, count - 1));
#pragma unroll
    for (int i = 0; i < kBatch; ++i) extremes.add(units[i]);
  }
  __syncwarp();
  extremes.add_lanes();
  if (lane >= kSliceUnits) return;
#pragma unroll
  for (int i = 0; i < kUnitPairs; ++i) {
    room.least[warp][lane * kUnitPairs + i] = extremes.least[i];
    room.greatest[warp][lane * kUnitPairs + i] = extremes.greatest[i];
  }
}

/// Minimum and maximum of a channel of the slice, from the extremes of all warps.
__device__ float2 ends_of(int channel, const SliceRoom& room) {
  __half least = __float2half_rn(INFINITY), greatest = __float2half_rn(-INFINITY);
  for (int warp = 0; warp < kWarps; ++warp) {
    least = __hmin_nan(least, reinterpret_cast<const __half*>(room.least[warp])[channel]);
    greatest = __hmax_nan(greatest, reinterpret_cast<const __half*>(room.greatest[warp])[channel]);
  }
  return make_float2(__half2float(least), __half2float(greatest));
}
/// False for NaN.
__device__ bool are_finite(float2 ends) { return ends.x > -INFINITY && ends.y < INFINITY; }

/// Minimum and maximum of all channels of the head, NaN if one of their values is; for the threads of the first warp.
/// `rows` reads the first slice. All threads of the block call it.
__device__ float2 ends_of_head(const SliceRows& rows, int first, int count, int dim, SliceRoom& room) {
  static_assert(kSlice == kWarp);
  const int thread = static_cast<int>(threadIdx.x);
  float2 ends = make_float2(INFINITY, -INFINITY);
  bool finite = true;
  for (int channel = 0; channel < dim; channel += kSlice) {
    find_extremes({rows.unit + channel, rows.row_stride, rows.indices}, first, count, room);
    __syncthreads();
    if (thread < kSlice) {
      const float2 of_channel = ends_of(thread, room);
      finite = finite && are_finite(of_channel);
      ends = make_float2(fminf(ends.x, of_channel.x), fmaxf(ends.y, of_channel.y));
    }
    __syncthreads();
  }
  if (thread >= kSlice) return ends;
  for (int offset = 1; offset < kWarp; offset *= 2) {
    ends.x = fminf(ends.x, __shfl_xor_sync(0xFFFFFFFFu, ends.x, offset));
    ends.y = fmaxf(ends.y, __shfl_xor_sync(0xFFFFFFFFu, ends.y, offset));
  }
  return __all_sync(0xFFFFFFFFu, finite) ? ends : make_float2(NAN, NAN);
}

/// Sets the scales of the slice, one channel per thread, from the channel's ends.
__device__ void set_scale(int channel, float2 ends, bool any, float range, int bits, SliceRoom& room, __half* offsets,
                          __half* steps) {
  const bool finite = are_finite(ends);
  const KvScale scale = any && finite ? KvScale::of(ends.x, ends.y, range, bits) : KvScale{};
  const __half offset = any && !finite ? __ushort_as_half(kNanBits) : __float2half_rn(scale.offset);
  const __half step = __float2half_rn(scale.step);
  room.offsets[channel] = __half2float(offset);
  room.steps[channel] = __half2float(step);
  if (offsets == nullptr) return;
  offsets[channel] = offset;
  steps[channel] = step;
}

/// Shared memory of a block with coded scales: a row's code depends on all channels of the head.
struct HeadRoom {
  float2 ends[kMaxHeadDim];
  float values[kMaxHeadDim];  // values of the current row
  uint8_t codes[kMaxHeadDim];
};

/// The block's task with coded scales.
struct CodedScales {
  std::byte* block;  // null: another part of the slice writes them
  KvScaleRow offset_row, step_row;
  int dim, channel;  // channel: the first of the slice
  float range;
  int bits;
};

/// Every warp computes it for itself.
__device__ KvScaleCoding code_row(const float* values, int dim) {
  float least = INFINITY, greatest = -INFINITY;
  for (int e = static_cast<int>(threadIdx.x) % kWarp; e < dim; e += kWarp) {
    least = fminf(least, values[e]);
    greatest = fmaxf(greatest, values[e]);
  }
  __syncwarp();
  for (int offset = 1; offset < kWarp; offset *= 2) {
    least = fminf(least, __shfl_xor_sync(0xFFFFFFFFu, least, offset));
    greatest = fmaxf(greatest, __shfl_xor_sync(0xFFFFFFFFu, greatest, offset));
  }
  return KvScaleCoding::of(least, greatest);
}

/// Writes the room's codes as a row of scales.
__device__ void store_row(const CodedScales& task, KvScaleRow row, const KvScaleCoding& coding, const HeadRoom& room) {
  const int thread = static_cast<int>(threadIdx.x);
  if (task.block == nullptr) return;
  if (thread < task.dim / 4) {
    const uint8_t codes[4] = {room.codes[4 * thread], room.codes[4 * thread + 1], room.codes[4 * thread + 2],
                              room.codes[4 * thread + 3]};
    put_scale_codes(codes, reinterpret_cast<uint8_t*>(task.block + scale_codes_at(row, task.dim)) + 3 * thread);
  }
  if (thread > 0) return;
  auto* ends = reinterpret_cast<uint16_t*>(task.block + scale_ends_at(row));
  ends[0] = coding.least;
  ends[1] = coding.place;
}

/// Codes the head's scales as in pack_kv_cpu.cpp, one channel per thread, and leaves the slice's in the room. All
/// threads of the block call it; the head's extremes are in the room.
__device__ void set_coded_scales(const CodedScales& task, bool any, SliceRoom& slice, HeadRoom& room) {
  const int e = static_cast<int>(threadIdx.x), in_slice = e - task.channel;
  const bool mine = e < task.dim, sliced = in_slice >= 0 && in_slice < kSlice;
  const bool valid = __syncthreads_and(!any || !mine || are_finite(room.ends[mine ? e : 0])) != 0;
  const float low = mine && any && valid ? task.range * (room.ends[e].x + 0.0f) : 0.0f;
  if (mine) room.values[e] = low;
  __syncthreads();
  KvScaleCoding coding = code_row(room.values, task.dim);
  const int offset_code = mine ? coding.code_below(low) : 0;
  if (!valid) coding = KvScaleCoding::not_a_number();
  const float offset = coding.value(offset_code);
  __syncthreads();
  const float step = mine && any && valid ? reaching_step(room.ends[e].y, offset, task.range, task.bits) : 1.0f;
  if (mine) {
    room.codes[e] = static_cast<uint8_t>(offset_code);
    room.values[e] = step;
  }
  __syncthreads();
  store_row(task, task.offset_row, coding, room);
  coding = code_row(room.values, task.dim);
  const int step_code = mine ? coding.code_above(step) : 0;
  __syncthreads();
  if (mine) room.codes[e] = static_cast<uint8_t>(step_code);
  if (sliced) {
    slice.offsets[in_slice] = offset;
    slice.steps[in_slice] = coding.value(step_code);
  }
  __syncthreads();
  store_row(task, task.step_row, coding, room);
}

/// Finds the minimum and maximum values of all channels of the head, slice by slice. `rows` reads the first slice.
__device__ void find_head_ends(const SliceRows& rows, int first, int count, int dim, SliceRoom& slice, HeadRoom& room) {
  const int thread = static_cast<int>(threadIdx.x);
  for (int channel = 0; channel < dim; channel += kSlice) {
    find_extremes({rows.unit + channel, rows.row_stride, rows.indices}, first, count, slice);
    __syncthreads();
    if (thread < kSlice) room.ends[channel + thread] = ends_of(thread, slice);
    __syncthreads();
  }
}

/// Writes a unit's codes as bytes, the first in the most significant bits. Neighbouring lanes have neighbouring units;
/// those that share a word combine it, and the first of them writes it. All lanes of the warp call it.
template <int kBits>
__device__ void store_codes(const int (&codes)[kUnit], bool wanted, uint8_t* to) {
  constexpr int kWords = kUnit * kBits > 32 ? 2 : 1;
  uint32_t words[kWords] = {};
#pragma unroll
  for (int i = 0; i < kUnit; ++i) {
    const int at = i * kBits;
    words[at / 32] |= static_cast<uint32_t>(codes[i]) << (at % 32 / 8 * 8 + 8 - kBits - at % 8);
  }
  if constexpr (kWords == 2) {
    if (wanted) *reinterpret_cast<uint2*>(to) = make_uint2(words[0], words[1]);
  } else {
    constexpr int kSharers = 32 / (kUnit * kBits);
    const int sharer = static_cast<int>(threadIdx.x) % kSharers;
    words[0] <<= sharer * kUnit * kBits;
#pragma unroll
    for (int offset = 1; offset < kSharers; offset *= 2) words[0] |= __shfl_xor_sync(0xFFFFFFFFu, words[0], offset);
    if (wanted && sharer == 0) *reinterpret_cast<uint32_t*>(to) = words[0];
  }
}

/// Destination of the scales of a slice's rows with scales by token: a slice of channels is a group.
static_assert(kSlice == kValueGroup);
struct RowScales {
  __half2* of_slots = nullptr;  // scales of slot 0; null: the slice's channels have scales, in the room
  int stride = 0;               // from slot to slot
  float range = 1.0f;
};

/// Returns offset and step of a row of the slice, of which each of the neighbouring lanes has a unit. All of them call
/// it.
__device__ __half2 scale_row(const __half2 (&unit)[kUnitPairs], float range, int bits) {
  __half2 least = unit[0], greatest = unit[0];
#pragma unroll
  for (int i = 1; i < kUnitPairs; ++i) {
    least = __hmin2_nan(least, unit[i]);
    greatest = __hmax2_nan(greatest, unit[i]);
  }
  for (int offset = 1; offset < kSliceUnits; offset *= 2) {
    least = __hmin2_nan(least, __shfl_xor_sync(0xFFFFFFFFu, least, offset));
    greatest = __hmax2_nan(greatest, __shfl_xor_sync(0xFFFFFFFFu, greatest, offset));
  }
  const float low = __half2float(__hmin_nan(__low2half(least), __high2half(least)));
  const float high = __half2float(__hmax_nan(__low2half(greatest), __high2half(greatest)));
  if (!are_finite({low, high})) return __halves2half2(__ushort_as_half(kNanBits), __float2half_rn(1.0f));
  const KvScale scale = KvScale::of(low, high, range, bits);
  return __floats2half2_rn(scale.offset, scale.step);
}

/// Packs slots [begin, end), which are list places `first` + slot. `codes` is this thread's unit in slot 0.
template <int kBits, bool kByToken>
__device__ void pack_slots(const SliceRows& rows, int first, int begin, int end, const SliceRoom& room,
                           const RowScales& scales, uint8_t* codes, int64_t row_bytes) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  float offsets[kUnit], steps[kUnit];
#pragma unroll
  for (int i = 0; i < kUnit && !kByToken; ++i) {
    offsets[i] = room.offsets[lane % kSliceUnits * kUnit + i];
    steps[i] = room.steps[lane % kSliceUnits * kUnit + i];
  }
  for (int warp_slot = begin + warp * kWarpRows; warp_slot < end; warp_slot += kRowsAtOnce * kBatch) {
    const int slot = warp_slot + lane / kSliceUnits;
    uint4 units[kBatch];
#pragma unroll
    for (int k = 0; k < kBatch; ++k) units[k] = rows.load(first + min(slot + k * kRowsAtOnce, end - 1));
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      if (warp_slot + k * kRowsAtOnce >= end) break;
      __half2 pairs[kUnitPairs];
      memcpy(pairs, &units[k], sizeof pairs);
      const int at = slot + k * kRowsAtOnce;
      if constexpr (kByToken) {
        const __half2 scale = scale_row(pairs, scales.range, kBits);
        if (at < end && lane % kSliceUnits == 0) scales.of_slots[at * scales.stride] = scale;
#pragma unroll
        for (int i = 0; i < kUnit; ++i) {
          offsets[i] = __low2float(scale);
          steps[i] = __high2float(scale);
        }
      }
      int unit_codes[kUnit];
#pragma unroll
      for (int i = 0; i < kUnit; ++i) {
        const float value = __half2float(i % 2 == 0 ? __low2half(pairs[i / 2]) : __high2half(pairs[i / 2]));
        // NaN becomes zero, values outside the integers the nearest one.
        const int code = __float2int_rn(__fdiv_rn(value - offsets[i], steps[i]));
        unit_codes[i] = min(max(code, 0), (1 << kBits) - 1);
      }
      store_codes<kBits>(unit_codes, at < end, codes + at * row_bytes);
    }
  }
}

template <bool kByToken>
__device__ void pack_slots(int bits, const SliceRows& rows, int first, int begin, int end, const SliceRoom& room,
                           const RowScales& scales, uint8_t* codes, int64_t row_bytes) {
  switch (bits) {
    case 8: return pack_slots<8, kByToken>(rows, first, begin, end, room, scales, codes, row_bytes);
    case 4: return pack_slots<4, kByToken>(rows, first, begin, end, room, scales, codes, row_bytes);
    case 2: return pack_slots<2, kByToken>(rows, first, begin, end, room, scales, codes, row_bytes);
    default: return pack_slots<1, kByToken>(rows, first, begin, end, room, scales, codes, row_bytes);
  }
}

/// Blocks: slices by parts, heads by keys and values, jobs.
template <KvScaleForm kForm>
__global__ void __launch_bounds__(kThreads) pack_slices(const __grid_constant__ PackKvArgs args, int parts) {
  __shared__ SliceRoom room;
  const int thread = static_cast<int>(threadIdx.x), dim = args.rows.head_dim, slices = dim / kSlice;
  const int part = static_cast<int>(blockIdx.x) / slices, channel = static_cast<int>(blockIdx.x) % slices * kSlice;
  const int head = static_cast<int>(blockIdx.y) / 2;
  const bool of_values = blockIdx.y % 2 == 1;
  const int unit_channel = channel + thread % kSliceUnits * kUnit;
  const Half* head_rows = (of_values ? args.rows.values : args.rows.keys) + head * args.rows.head_stride;
  const SliceRows rows{reinterpret_cast<const __half*>(head_rows) + unit_channel, args.rows.row_stride,
                       args.indices + head * args.index_stride};
  wait_for_inputs();
  let_next_start();

  const PackJob& job = args.jobs[blockIdx.z];
  const PackedRows to = packed_rows(job.out, args.layer, head, dim);
  const CodeMatrix& matrix = of_values ? to.values : to.keys;
  const int bits = matrix.bits;
  const int slots = live_slots(job.out, args.layer.index, args.rows.heads, head);
  int32_t range_first = 0;
  const int range_count = range_rows(job, args.layer.index, args.rows.heads, head, slots, &range_first);
  const float range = of_values ? args.value_range : args.key_range;
  const KvScaleRow offset_row = of_values ? kValueOffsets : kKeyOffsets, step_row = of_values ? kValueSteps : kKeySteps;
  auto* const block = const_cast<std::byte*>(to.block);
  const int share = divide_up(slots, parts), begin = part * share, end = min(slots, (part + 1) * share);
  auto* const codes = const_cast<uint8_t*>(matrix.data) + unit_channel * bits / 8;
  if constexpr (kForm == KvScaleForm::kByToken) {
    if (of_values) {
      auto* const of_slots = reinterpret_cast<__half2*>(const_cast<Half*>(to.token_scales(0)));
      const RowScales scales{of_slots + channel / kSlice, slices, range};
      return pack_slots<true>(bits, rows, job.first_index, begin, end, room, scales, codes, matrix.row_bytes);
    }
  }
  if constexpr (kForm == KvScaleForm::k6Bit) {
    __shared__ HeadRoom head_room;
    find_head_ends({rows.unit - channel, rows.row_stride, rows.indices}, range_first, range_count, dim, room,
                   head_room);
    set_coded_scales({blockIdx.x == 0 ? block : nullptr, offset_row, step_row, dim, channel, range, bits},
                     range_count > 0, room, head_room);
  } else {
    const bool is_global = kForm == KvScaleForm::kF16 && of_values && args.global_values;
    float2 ends = {};
    if (is_global) {
      ends = ends_of_head({rows.unit - channel, rows.row_stride, rows.indices}, range_first, range_count, dim, room);
    } else {
      find_extremes(rows, range_first, range_count, room);
      __syncthreads();
    }
    if (thread < kSlice) {
      if (!is_global) ends = ends_of(thread, room);
      __half* scales = reinterpret_cast<__half*>(block) + channel;
      set_scale(thread, ends, range_count > 0, range, bits, room, part == 0 ? scales + offset_row * dim : nullptr,
                scales + step_row * dim);
    }
    __syncthreads();
  }
  pack_slots<false>(bits, rows, job.first_index, begin, end, room, {}, codes, matrix.row_bytes);
}

}  // namespace

void pack_kv(const PackKvArgs& args, Queue& queue) {
  const int dim = args.rows.head_dim;
  if (dim % kSlice != 0) {
    return queue.fail(
        OCELLUS_FAIL(Code::kUnsupported, "pack_kv packs channels by %d on CUDA, not %d of them", kSlice, dim));
  }
  const int64_t blocks = int64_t{dim / kSlice} * args.rows.heads * 2 * args.job_count;
  if (!queue.ok() || blocks == 0) return;
  const int64_t parts = std::clamp<int64_t>(queue.cuda()->facts().multiprocessors / blocks, 1, kMaxParts);
  const dim3 grid(static_cast<unsigned>(dim / kSlice * parts), static_cast<unsigned>(args.rows.heads * 2),
                  static_cast<unsigned>(args.job_count));
  const LaunchShape shape{.grid = grid, .threads = kThreads};
  switch (args.layer.scales) {
    case KvScaleForm::kF16:
      return launch<pack_slices<KvScaleForm::kF16>>(queue, "pack_kv", shape, args, static_cast<int>(parts));
    case KvScaleForm::k6Bit:
      return launch<pack_slices<KvScaleForm::k6Bit>>(queue, "pack_kv", shape, args, static_cast<int>(parts));
    case KvScaleForm::kByToken:
      return launch<pack_slices<KvScaleForm::kByToken>>(queue, "pack_kv", shape, args, static_cast<int>(parts));
  }
}

}  // namespace cuda
}  // namespace ocellus

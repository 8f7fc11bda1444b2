#include <cstring>

#include "kernels/backends.h"
#include "kernels/base/device_math.cuh"
#include "kernels/base/launch.cuh"
#include "kernels/rows/store_kv.h"

namespace ocellus {
namespace cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kUnit = 8;  // values of one 16-byte access

__device__ uint4 load_unit(const Half* from) { return *reinterpret_cast<const uint4*>(from); }
__device__ void store_unit(Half* to, const uint4& unit) { *reinterpret_cast<uint4*>(to) = unit; }

/// Infinities become the largest f16; NaN stays NaN.
__device__ uint4 limited(uint4 unit) {
  const __half2 most = __float2half2_rn(kLargestHalf), least = __float2half2_rn(-kLargestHalf);
  __half2 pairs[kUnit / 2];
  memcpy(pairs, &unit, sizeof unit);
#pragma unroll
  for (__half2& pair : pairs) pair = __hmax2_nan(__hmin2_nan(pair, most), least);
  memcpy(&unit, pairs, sizeof unit);
  return unit;
}

/// Place of a unit: row, key/value head, and offset in the head.
struct UnitPlace {
  int64_t row;
  int head, at;
};
__device__ UnitPlace place_of(int64_t unit, const KvLayerRows& rows) {
  const int head_units = rows.head_dim / kUnit, row_units = rows.heads * head_units;
  const int64_t row = unit / row_units;
  const int in_row = static_cast<int>(unit - row * row_units);
  return {row, in_row / head_units, in_row % head_units * kUnit};
}

__device__ int64_t thread_index() { return int64_t{blockIdx.x} * kThreads + threadIdx.x; }

int64_t unit_count(int64_t row_count, const KvLayerRows& rows) {
  return row_count * rows.heads * (rows.head_dim / kUnit);
}

/// Rows of f16 keys and values; strides in values.
struct RowPair {
  const Half* keys;
  const Half* values;
  int64_t keys_stride, values_stride;
};

/// One thread copies one unit of a key and of its value.
__global__ void round_kv_units(RowPair in, const __grid_constant__ RoundKvArgs args, int64_t count) {
  const int64_t unit = thread_index();
  wait_for_inputs();
  let_next_start();
  if (unit >= count) return;
  const KvLayerRows& out = args.out;
  const UnitPlace place = place_of(unit, out);
  const int from = place.head * out.head_dim + place.at;
  const int64_t to = out.at(args.place(place.row), place.head) + place.at;
  store_unit(out.keys + to, limited(load_unit(in.keys + place.row * in.keys_stride + from)));
  store_unit(out.values + to, limited(load_unit(in.values + place.row * in.values_stride + from)));
}

__global__ void store_kv_units(KvLayerRows rows, const KvSlot* slots, int layer, int64_t count) {
  const int64_t unit = thread_index();
  wait_for_inputs();
  let_next_start();
  if (unit >= count) return;
  const UnitPlace place = place_of(unit, rows);
  const KvSlot slot = slots[place.row];
  if (slot.key == nullptr) return;
  const int64_t from = place.row * rows.row_stride + place.head * rows.head_stride + place.at;
  std::byte* to = slot.key + layer * slot.layer_stride + place.head * slot.head_stride + place.at * int64_t{2};
  store_unit(reinterpret_cast<Half*>(to), load_unit(rows.keys + from));
  store_unit(reinterpret_cast<Half*>(to + slot.value_offset), load_unit(rows.values + from));
}

LaunchShape shape_of(int64_t units) {
  return {.grid = static_cast<unsigned>(divide_up(units, kThreads)), .threads = kThreads};
}

}  // namespace

void round_kv(const RoundKvArgs& args, Queue& queue) {
  const int64_t units = unit_count(args.keys.rows, args.out);
  const RowPair in{static_cast<const Half*>(args.keys.data), static_cast<const Half*>(args.values.data),
                   args.keys.stride, args.values.stride};
  launch<round_kv_units>(queue, "round_kv", shape_of(units), in, args, units);
}

void store_kv(const StoreKvArgs& args, Queue& queue) {
  const int64_t units = unit_count(args.count, args.rows);
  launch<store_kv_units>(queue, "store_kv", shape_of(units), args.rows, args.slots, static_cast<int>(args.layer),
                         units);
}

}  // namespace cuda
}  // namespace ocellus

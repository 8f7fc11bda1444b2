#include "kernels/backends.h"
#include "kernels/base/launch.cuh"
#include "kernels/base/row_access.cuh"
#include "kernels/linear/decode_weights.cuh"
#include "kernels/rows/gather_rows.h"

namespace ocellus {
namespace cuda {
namespace {

constexpr int kThreads = 128;

struct Rows {
  const int32_t* ids;
  int64_t id_stride;
  const uint8_t* table;
  int64_t row_bytes;
  int64_t table_rows;
  int cols;
  float scale;
  int32_t skipped_as;
  float* output;
  int64_t output_stride;

  __device__ int64_t id(int64_t row) const {
    const int32_t id = ids[row * id_stride];
    return id == kSkippedRow ? skipped_as : id;
  }
};

__device__ float not_a_number() { return __uint_as_float(0x7FC00000u); }

/// Block formats, eight weights a thread.
template <class Decoder, int kWide>
__global__ void gather_blocks(const Rows rows) {
  constexpr int kParts = Decoder::kElements / 8;
  wait_for_inputs();
  let_next_start();
  const int64_t id = rows.id(blockIdx.x);
  const int eight = static_cast<int>(blockIdx.y * kThreads + threadIdx.x);
  if (id == kSkippedRow || eight >= rows.cols / 8) return;
  float values[8];
  if (id >= 0 && id < rows.table_rows) {
    const uint8_t* block = rows.table + id * rows.row_bytes + int64_t{eight / kParts} * Decoder::kBytes;
    Decoder::eight(block, eight % kParts, values);
#pragma unroll
    for (float& value : values) value *= rows.scale;
  } else {
#pragma unroll
    for (float& value : values) value = not_a_number();
  }
  float* out = rows.output + blockIdx.x * rows.output_stride + int64_t{8} * eight;
  if constexpr (kWide == 8) {
    store_values<8>(out, values);
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i) out[i] = values[i];
  }
}

__device__ float plain_value(const float* row, int i) { return row[i]; }
__device__ float plain_value(const __half* row, int i) { return __half2float(row[i]); }
__device__ float plain_value(const uint16_t* row, int i) {
  return __uint_as_float(uint32_t{row[i]} << 16);
}  // bfloat16

/// F32, F16 and BF16 with any number of columns, one weight a thread.
template <class Value>
__global__ void gather_values(const Rows rows) {
  wait_for_inputs();
  let_next_start();
  const int64_t id = rows.id(blockIdx.x);
  const int i = static_cast<int>(blockIdx.y * kThreads + threadIdx.x);
  if (id == kSkippedRow || i >= rows.cols) return;
  float value = not_a_number();
  if (id >= 0 && id < rows.table_rows)
    value = plain_value(reinterpret_cast<const Value*>(rows.table + id * rows.row_bytes), i) * rows.scale;
  rows.output[blockIdx.x * rows.output_stride + i] = value;
}

template <auto kKernel>
void gather(const Rows& rows, int64_t count, int64_t units, Queue& queue) {
  const dim3 grid(static_cast<unsigned>(count), static_cast<unsigned>(divide_up(units, kThreads)));
  launch<kKernel>(queue, "gather_rows", {.grid = grid, .threads = kThreads}, rows);
}

}  // namespace

void gather_rows(const GatherRowsArgs& args, Queue& queue) {
  const WeightView& table = args.table;
  const Rows rows{.ids = args.ids,
                  .id_stride = args.id_stride,
                  .table = table.data,
                  .row_bytes = table.row_bytes(),
                  .table_rows = table.rows,
                  .cols = static_cast<int>(table.cols),
                  .scale = args.scale,
                  .skipped_as = args.skipped_as,
                  .output = args.output.data,
                  .output_stride = args.output.stride};
  switch (table.format) {
    case WeightFormat::kF32: return gather<gather_values<float>>(rows, args.count, table.cols, queue);
    case WeightFormat::kF16: return gather<gather_values<__half>>(rows, args.count, table.cols, queue);
    case WeightFormat::kBF16: return gather<gather_values<uint16_t>>(rows, args.count, table.cols, queue);
    default: break;
  }
  with_decoder(table.format, [&](auto decoder) {
    using Decoder = decltype(decoder);
    if constexpr (Decoder::kElements > 8) {
      if (takes_wide(DeviceView<const float>(args.output), 8))
        gather<gather_blocks<Decoder, 8>>(rows, args.count, table.cols / 8, queue);
      else
        gather<gather_blocks<Decoder, 1>>(rows, args.count, table.cols / 8, queue);
    }
  });
}

}  // namespace cuda
}  // namespace ocellus

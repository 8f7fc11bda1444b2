#include "kernels/base/launch.cuh"
#include "kernels/base/row_access.cuh"
#include "kernels/linear/decode_weights.cuh"
#include "kernels/linear/matmul_scratch.h"

namespace ocellus::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kEightsPerThread = 4;  // loads in flight: enough bytes to hide the memory's latency

/// Rows are contiguous whole blocks, so a matrix is one run of blocks. A thread takes eight weights at a time, and a
/// warp 256 consecutive ones: its reads share lines and its writes are whole lines.
template <class Decoder>
__global__ void __launch_bounds__(kThreads) decode_eights(const uint8_t* source, uint32_t count, __half* out) {
  constexpr uint32_t kParts = Decoder::kElements / 8;
  const uint32_t first = blockIdx.x * (kThreads * kEightsPerThread) + threadIdx.x;
  let_next_start();
  uint4 packed[kEightsPerThread];
#pragma unroll
  for (int k = 0; k < kEightsPerThread; ++k) {
    const uint32_t at = min(first + k * kThreads, count - 1);  // branch-free, so that all reads are issued
    float weights[8];
    Decoder::eight(source + int64_t{at / kParts} * Decoder::kBytes, static_cast<int>(at % kParts), weights);
    auto* pairs = reinterpret_cast<__half2*>(&packed[k]);
#pragma unroll
    for (int i = 0; i < 4; ++i) pairs[i] = round_half2(weights[2 * i], weights[2 * i + 1]);
  }
  wait_for_inputs();
#pragma unroll
  for (int k = 0; k < kEightsPerThread; ++k) {
    const uint32_t at = first + k * kThreads;
    if (at < count) reinterpret_cast<uint4*>(out)[at] = packed[k];
  }
}

__device__ float plain_weight(const float* weight) { return __ldg(weight); }
__device__ float plain_weight(const __half* weight) { return __half2float(__ldg(weight)); }
__device__ float plain_weight(const uint16_t* weight) {
  return __uint_as_float(uint32_t{__ldg(weight)} << 16);
}  // BF16

/// Decodes plain formats with rows of any length at any address, one weight at a time: rare, and small.
template <class Weight>
__global__ void __launch_bounds__(kThreads)
    decode_plain(const Weight* source, uint32_t cols, uint32_t eights_per_row, uint32_t count, __half* out) {
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  let_next_start();
  const uint32_t first = 8 * (i % eights_per_row);
  const Weight* from = source + int64_t{i / eights_per_row} * cols + first;
  float weights[8];
#pragma unroll
  for (uint32_t k = 0; k < 8; ++k) weights[k] = i < count && first + k < cols ? plain_weight(from + k) : 0.0f;
  wait_for_inputs();
  if (i < count) store_values<8>(out + int64_t{8} * i, weights);
}

template <class Weight>
void decode_plain_rows(const WeightView& rows, __half* out, Queue& queue) {
  const int64_t eights_per_row = padded_cols(rows.cols) / 8, count = rows.rows * eights_per_row;
  launch<decode_plain<Weight>>(queue, "decode_weights",
                               {.grid = static_cast<unsigned>(divide_up(count, kThreads)), .threads = kThreads},
                               reinterpret_cast<const Weight*>(rows.data), static_cast<uint32_t>(rows.cols),
                               static_cast<uint32_t>(eights_per_row), static_cast<uint32_t>(count), out);
}

}  // namespace

void decode_weights(const WeightView& rows, __half* out, Queue& queue) {
  if (!has_usable_rows(rows.data, rows.cols)) {
    switch (rows.format) {
      case WeightFormat::kF32: return decode_plain_rows<float>(rows, out, queue);
      case WeightFormat::kF16: return decode_plain_rows<__half>(rows, out, queue);
      case WeightFormat::kBF16: return decode_plain_rows<uint16_t>(rows, out, queue);
      default: break;  // blocks are read in at most eight bytes, and no row ends within eight weights
    }
  }
  const int64_t eights = rows.rows * rows.cols / 8;
  with_decoder(rows.format, [&](auto decoder) {
    launch<decode_eights<decltype(decoder)>>(
        queue, "decode_weights",
        {.grid = static_cast<unsigned>(divide_up(eights, kThreads * kEightsPerThread)), .threads = kThreads}, rows.data,
        static_cast<uint32_t>(eights), out);
  });
}

}  // namespace ocellus::cuda

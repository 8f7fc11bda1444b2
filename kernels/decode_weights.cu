#include "kernels/decode_weights.cuh"
#include "kernels/device_math.cuh"
#include "kernels/launch.cuh"

namespace ocellus::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kEightsPerThread = 4;  // on their way at once: enough bytes to hide the memory's latency

/// Rows are contiguous and whole blocks, so a matrix is one run of blocks. A thread takes eight weights at a time, and
/// a warp 256 in a row: its reads share lines and its writes are whole lines.
template <class Decoder>
__global__ void __launch_bounds__(kThreads) decode_eights(const uint8_t* source, uint32_t count, __half* out) {
  constexpr uint32_t kParts = Decoder::kElements / 8;
  const uint32_t first = blockIdx.x * (kThreads * kEightsPerThread) + threadIdx.x;
  let_next_start();
  uint4 packed[kEightsPerThread];
#pragma unroll
  for (int k = 0; k < kEightsPerThread; ++k) {
    const uint32_t at = min(first + k * kThreads, count - 1);  // no branch, so that all reads go ahead
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

}  // namespace

void decode_weights(const WeightView& rows, __half* out, Queue& queue) {
  const int64_t eights = rows.rows * rows.cols / 8;
  with_decoder(rows.format, [&](auto decoder) {
    launch<decode_eights<decltype(decoder)>>(
        queue, "decode_weights",
        {.grid = static_cast<unsigned>(divide_up(eights, kThreads * kEightsPerThread)), .threads = kThreads}, rows.data,
        static_cast<uint32_t>(eights), out);
  });
}

}  // namespace ocellus::cuda

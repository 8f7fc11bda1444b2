#include "kernels/backends.h"
#include "kernels/base/device_math.cuh"
#include "kernels/base/launch.cuh"
#include "kernels/linear/fill_weights-inl.h"
#include "kernels/linear/fill_weights.h"

namespace ocellus {
namespace cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kThreadBytes = 16;  // two words
constexpr int kBlockBytes = kThreads * kThreadBytes;

/// Writes two words at `at`, cut at the end of the tensor.
__device__ void write_words(uint8_t* data, int64_t bytes, int64_t at, uint64_t first, uint64_t second) {
  if (at + kThreadBytes <= bytes) {
    *reinterpret_cast<ulonglong2*>(data + at) = make_ulonglong2(first, second);
    return;
  }
  for (int i = 0; i < kThreadBytes && at + i < bytes; ++i)
    data[at + i] = static_cast<uint8_t>((i < 8 ? first : second) >> (8 * (i % 8)));
}

__device__ int64_t first_byte() { return int64_t{blockIdx.x} * kBlockBytes + threadIdx.x * kThreadBytes; }

template <WeightFormat kFormat>
__global__ void fill_plain(uint8_t* data, int64_t bytes, uint64_t seed, float mean, float spread) {
  const int64_t at = first_byte();
  const int64_t word = at / fill::kWordBytes;
  const uint64_t first = fill::plain_word<kFormat>(fill::random_word(seed, word), mean, spread);
  const uint64_t second = fill::plain_word<kFormat>(fill::random_word(seed, word + 1), mean, spread);
  wait_for_inputs();
  let_next_start();
  write_words(data, bytes, at, first, second);
}

__global__ void fill_blocks(uint8_t* data, int64_t bytes, uint64_t seed, const __grid_constant__ fill::ScaleRun run) {
  const int64_t at = first_byte();
  const int64_t word = at / fill::kWordBytes;
  // at % block_bytes, in 32 bits: the parts are below 210 * 210 and 4096.
  const uint32_t size = run.block_bytes;
  uint32_t place = (blockIdx.x % size * (kBlockBytes % size) + threadIdx.x * kThreadBytes) % size;
  const uint64_t first = fill::block_word(run, fill::random_word(seed, word), &place);
  const uint64_t second = fill::block_word(run, fill::random_word(seed, word + 1), &place);
  wait_for_inputs();
  let_next_start();
  write_words(data, bytes, at, first, second);
}

}  // namespace

void fill_weights(const FillWeightsArgs& args, Queue& queue) {
  const int64_t bytes = args.rows * row_bytes(args.format, args.cols);
  const LaunchShape shape = {.grid = static_cast<unsigned>(divide_up(bytes, kBlockBytes)), .threads = kThreads};
  const auto plain = [&]<WeightFormat kFormat>() {
    launch<fill_plain<kFormat>>(queue, "fill_weights", shape, args.data, bytes, args.seed, args.mean,
                                fill::spread_of(args.deviation));
  };
  switch (args.format) {
    case WeightFormat::kF32: return plain.template operator()<WeightFormat::kF32>();
    case WeightFormat::kF16: return plain.template operator()<WeightFormat::kF16>();
    case WeightFormat::kBF16: return plain.template operator()<WeightFormat::kBF16>();
    default:
      launch<fill_blocks>(queue, "fill_weights", shape, args.data, bytes, args.seed,
                          fill::scale_run(args.format, args.deviation));
  }
}

}  // namespace cuda
}  // namespace ocellus

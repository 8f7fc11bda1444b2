#include "kernels/backends.h"
#include "kernels/base/device_math.cuh"
#include "kernels/base/hash_term.h"
#include "kernels/base/launch.cuh"
#include "kernels/vision/describe_views.h"

namespace ocellus {
namespace cuda {
namespace {

constexpr int kThreads = 128;

/// The planes of the views, cut into squares.
struct Squares {
  const float* pixels;
  int64_t stride;
  int planes, height, width, side, lines, cols;
};

/// One warp per square.
__global__ void describe_squares(Squares s, int64_t count, uint64_t* hashes, float* means, int64_t means_stride) {
  wait_for_inputs();
  let_next_start();
  const int64_t index = (int64_t{blockIdx.x} * kThreads + threadIdx.x) / kWarp;
  if (index >= count) return;  // a whole warp
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int col = static_cast<int>(index % s.cols), line = static_cast<int>(index / s.cols % s.lines);
  const int64_t plane = index / s.cols / s.lines, view = plane / s.planes;
  const int left = col * s.side, top = line * s.side;
  const int across = min(s.side, s.width - left), values = across * min(s.side, s.height - top);
  uint64_t hash = 0;
  float sum = 0;
  for (int i = lane; i < values; i += kWarp) {
    const int x = left + i % across, y = top + i / across;
    const float value = s.pixels[(plane * s.height + y) * s.stride + x];
    sum += value;
    const int64_t place = (plane % s.planes * s.height + y) * s.width + x;
    hash += hash_term(static_cast<uint32_t>(place), __float_as_uint(value));
  }
  for (int offset = kWarp / 2; offset > 0; offset /= 2) hash += __shfl_xor_sync(0xFFFFFFFFu, hash, offset);
  sum = warp_sum(sum);
  if (lane != 0) return;
  atomicAdd(reinterpret_cast<unsigned long long*>(hashes + view), static_cast<unsigned long long>(hash));
  if (means == nullptr) return;
  means[view * means_stride + (plane % s.planes * s.lines + line) * s.cols + col] = sum / static_cast<float>(values);
}

}  // namespace

void describe_views(const DescribeViewsArgs& args, Queue& queue) {
  const Squares squares = {.pixels = args.pixels.data,
                           .stride = args.pixels.stride,
                           .planes = static_cast<int>(args.planes()),
                           .height = args.height,
                           .width = static_cast<int>(args.pixels.cols),
                           .side = args.square,
                           .lines = divide_up(args.height, args.square),
                           .cols = static_cast<int>(divide_up(args.pixels.cols, args.square))};
  const int64_t count = args.hashes.cols * squares.planes * squares.lines * squares.cols;
  launch<describe_squares>(
      queue, "describe_views",
      {.grid = dim3(static_cast<unsigned>(divide_up(count * kWarp, kThreads))), .threads = kThreads}, squares, count,
      args.hashes.data, args.means.data, args.means.stride);
}

}  // namespace cuda
}  // namespace ocellus

#pragma once

#include <cstdint>

#include "platform/queue.h"
#include "platform/views.h"

namespace ocellus {

/// Describes the pixels of views, so that a view is recognised without them.
///
/// hashes[v] += sum over the values i of view v of hash_term(i, bits of i)
/// means[v][(p * lines + y) * cols + x] = mean of the pixels of plane p in square (y, x)
///
/// with lines = ceil(height / square) and cols = ceil(width / square); squares at the edges have fewer pixels.
///
/// Shapes    pixels [views * planes * height, width]; hashes [1, views]; means [views, planes * lines * cols] or none
/// Types     f32 in; sums of hashes modulo 2^64, the same on every device; means in f32
/// Aliasing  none
struct DescribeViewsArgs {
  DeviceView<const float> pixels;
  int32_t height = 0;
  int32_t square = 16;  // side, in pixels
  DeviceView<uint64_t> hashes;
  DeviceView<float> means;

  int64_t planes() const { return pixels.rows / (hashes.cols * height); }
};
void describe_views(const DescribeViewsArgs& args, Queue& queue);

}  // namespace ocellus

#include <algorithm>
#include <atomic>
#include <bit>

#include "kernels/backends.h"
#include "kernels/base/hash_term.h"
#include "kernels/base/row_pieces.h"
#include "kernels/vision/describe_views.h"

namespace ocellus {
namespace {

uint64_t hash_line(const float* line, int64_t width, int64_t first) {
  uint64_t hash = 0;
  for (int64_t x = 0; x < width; ++x)
    hash += hash_term(static_cast<uint32_t>(first + x), std::bit_cast<uint32_t>(line[x]));
  return hash;
}

/// Writes the means of a line of squares, whose pixels are `strip`.
void average_squares(DeviceView<const float> strip, int64_t square, float* means) {
  for (int64_t left = 0; left < strip.cols; left += square, ++means) {
    const int64_t end = std::min(left + square, strip.cols);
    float sum = 0;
    for (int64_t y = 0; y < strip.rows; ++y)
      for (int64_t x = left; x < end; ++x) sum += strip.row(y)[x];
    *means = sum / static_cast<float>(strip.rows * (end - left));
  }
}

}  // namespace

void cpu::describe_views(const DescribeViewsArgs& a, Queue& queue) {
  const int64_t height = a.height, width = a.pixels.cols, planes = a.planes();
  const int64_t lines = divide_up(height, a.square), cols = divide_up(width, a.square), strips = planes * lines;
  const int64_t grain = rows_per_piece(width * a.square, 65536);
  queue.parallel(a.hashes.cols * strips, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t strip = begin; strip < end; ++strip) {
      const int64_t view = strip / strips, plane = strip % strips / lines, top = strip % lines * a.square;
      const int64_t count = std::min<int64_t>(a.square, height - top);
      const DeviceView<const float> pixels = a.pixels.slice_rows((view * planes + plane) * height + top, count);
      uint64_t hash = 0;
      for (int64_t y = 0; y < count; ++y) hash += hash_line(pixels.row(y), width, (plane * height + top + y) * width);
      std::atomic_ref(a.hashes.data[view]).fetch_add(hash, std::memory_order_relaxed);
      if (a.means.rows > 0) average_squares(pixels, a.square, a.means.row(view) + strip % strips * cols);
    }
  });
}

}  // namespace ocellus

// Frames of random pixels in memory that ends where they do.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "mm/pictures/frame.h"

namespace ocellus::test {

/// Planes of exactly the bytes that may be read: rows are padded, but for the last one. Matrix, range and depths are
/// random, too.
struct RandomFrame {
  Frame frame;
  std::vector<uint8_t> planes[kFramePlanes];

  RandomFrame(PixelFormat format, int32_t width, int32_t height, std::mt19937& random) {
    frame.format = format;
    frame.width = width;
    frame.height = height;
    frame.matrix = random() % 2 == 0 ? ColorMatrix::kBt601 : ColorMatrix::kBt709;
    frame.full_range = random() % 2 == 0;
    if (format == PixelFormat::kGray16 && random() % 4 != 0) {
      frame.depth.near = static_cast<int32_t>(random() % 30000);
      frame.depth.far = frame.depth.near + 1 + static_cast<int32_t>(random() % 35000);
    }
    for (int i = 0; i < kFramePlanes; ++i) {
      const PlaneSize size = plane_size(frame, i);
      if (size.rows == 0) continue;
      frame.stride_bytes[i] = size.row_bytes + static_cast<int64_t>(random() % 9);
      planes[i].resize(static_cast<size_t>(frame.stride_bytes[i] * (size.rows - 1) + size.row_bytes));
      for (uint8_t& byte : planes[i]) byte = static_cast<uint8_t>(random());
      frame.planes[i] = planes[i].data();
    }
  }
  double at(int plane, int64_t y, int64_t x) const {
    return planes[plane].at(static_cast<size_t>(y * frame.stride_bytes[plane] + x));
  }
};

}  // namespace ocellus::test

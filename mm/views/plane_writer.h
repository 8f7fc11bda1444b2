// PlaneWriter: converts rows of one view, as bytes, to the normalised planes that a vision tower reads.
#pragma once

#include "mm/views/preprocess.h"

namespace ocellus {

/// A table holds every possible result: 256 values per channel.
class PlaneWriter {
 public:
  /// `out` as in render_view.
  PlaneWriter(const PreprocessConfig& config, DeviceView<float> out) : size_(config.image_size), out_(out) {
    for (int c = 0; c < 3; ++c) {
      for (int value = 0; value < 256; ++value) {
        table_[c][value] = picture::normalise(static_cast<uint8_t>(value), config.mean[c], config.std[c]);
      }
    }
  }
  void write(int32_t y, const uint8_t* rgb) const {
    for (int c = 0; c < 3; ++c) {
      float* plane_row = out_.row(int64_t{c} * size_ + y);
      for (int32_t x = 0; x < size_; ++x) plane_row[x] = table_[c][rgb[3 * x + c]];
    }
  }

 private:
  int32_t size_;
  DeviceView<float> out_;
  float table_[3][256];
};

}  // namespace ocellus

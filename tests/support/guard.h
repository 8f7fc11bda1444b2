// Guarded buffers: an op's outputs lie between bands of known bytes; a write outside shows as a broken band.
//
//   Guarded<float> out(T, N, stride);                   // rows of N values, stride - N bytes of band between rows
//   op({.output = out.view()}, queue);
//   CHECK(out.intact());
#pragma once

#include <cstdint>
#include <cstring>

#include "platform/views.h"
#include "tests/support/visible_memory.h"

namespace ocellus::test {

template <class T>
class Guarded {
  static constexpr int64_t kBandBytes = 256;
  static constexpr uint8_t kBandByte = 0xA7;  // as floats: tiny negative numbers; as halves: -0.03

 public:
  /// Rows of `cols` values that start `stride` values apart; the values start as the band pattern too, so an
  /// element the op forgets to write is seen (`untouched_count`).
  Guarded(int64_t rows, int64_t cols, int64_t stride)
      : rows_(rows),
        cols_(cols),
        stride_(stride),
        bytes_(static_cast<size_t>(rows * stride * static_cast<int64_t>(sizeof(T)) + 2 * kBandBytes), kBandByte) {}
  Guarded(int64_t rows, int64_t cols) : Guarded(rows, cols, cols) {}

  /// Starts on a 64-byte boundary.
  T* data() { return reinterpret_cast<T*>(bytes_.data() + kBandBytes); }
  const T* data() const { return reinterpret_cast<const T*>(bytes_.data() + kBandBytes); }
  T& at(int64_t row, int64_t col) { return data()[row * stride_ + col]; }
  const T& at(int64_t row, int64_t col) const { return data()[row * stride_ + col]; }
  DeviceView<T> view() { return {data(), rows_, cols_, stride_}; }

  /// True if only the values themselves were written: nothing before, after or between the rows.
  bool intact() const {
    const int64_t size = static_cast<int64_t>(sizeof(T));
    int64_t at = 0;
    for (int64_t row = 0; row < rows_; ++row) {
      const int64_t begin = kBandBytes + row * stride_ * size;
      if (!is_band(at, begin)) return false;
      at = begin + cols_ * size;
    }
    return is_band(at, static_cast<int64_t>(bytes_.size()));
  }
  /// Values that still hold the band pattern.
  int64_t untouched_count() const {
    int64_t count = 0;
    for (int64_t row = 0; row < rows_; ++row)
      for (int64_t col = 0; col < cols_; ++col) {
        const int64_t begin = kBandBytes + (row * stride_ + col) * static_cast<int64_t>(sizeof(T));
        count += is_band(begin, begin + static_cast<int64_t>(sizeof(T)));
      }
    return count;
  }

 private:
  bool is_band(int64_t begin, int64_t end) const {
    for (int64_t i = begin; i < end; ++i)
      if (bytes_[static_cast<size_t>(i)] != kBandByte) return false;
    return true;
  }

  int64_t rows_, cols_, stride_;
  Vector<uint8_t> bytes_;
};

}  // namespace ocellus::test

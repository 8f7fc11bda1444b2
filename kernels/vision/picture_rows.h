// Rows of pictures on the CPU, in vectors: the two passes of Pillow's resize (arithmetic: resample_math.h) and the
// normalisation of bytes. Results are bit-equal to the plain sums; rows need no alignment.
#pragma once

#include <cstdint>

#include "kernels/vision/picture.h"
#include "platform/round_up.h"

namespace ocellus {

/// The source pixels, or rows, that one of the target averages.
struct FilterWindow {
  int32_t first;
  int32_t count;
};

/// A filter along rows. 22-bit weights are kept as 2^kLowBits * high + low, so that 16-bit products suffice.
struct AlongFilter {
  static constexpr int kLowBits = 8;
  /// Windows are read in vectors of up to kStep pixels: weights end with zeros, channels with kStep bytes of any value.
  static constexpr int64_t kStep = 16;
  static constexpr int64_t weight_stride(int64_t capacity) { return round_up(capacity, kStep); }
  static constexpr int64_t channel_stride(int64_t pixels) { return round_up(pixels, kStep) + kStep; }

  int32_t source_length = 0;
  int32_t target_length = 0;
  int64_t capacity = 0;             // maximum pixels in a window
  FilterWindow* windows = nullptr;  // [target length]
  int16_t* weights = nullptr;       // [target length, 2, weight_stride]: high parts, low parts
  uint8_t* channels = nullptr;      // [3, channel_stride]: scratch

  /// Keeps the weights of target pixel `at`; the sum of their magnitudes is below 2^23.
  void set(int32_t at, const FilterWindow& window, const int32_t* values);
};

/// row [3 * source length] -> output [3 * target length]
void filter_along(const AlongFilter& filter, const uint8_t* row, uint8_t* output);

/// output[j] = the rounded sum over i of weights[i] * row (first + i) mod ring_rows of the ring, byte j
struct AcrossArgs {
  const uint8_t* ring = nullptr;  // [ring_rows, bytes]
  int32_t ring_rows = 0;
  FilterWindow window = {};
  const int32_t* weights = nullptr;
  int64_t bytes = 0;
};
void filter_across(const AcrossArgs& args, uint8_t* output);

/// sums[j] += weight * row[j]
void add_weighted_row(const uint8_t* row, int32_t weight, int64_t bytes, int32_t* sums);

/// output[j] = sums[j] without its fraction of 22 bits, between 0 and 255
void round_sums(const int32_t* sums, int64_t bytes, uint8_t* output);

/// planes[c][x] = (rgb[3 * x + c] / 255 - mean[c]) / std[c]
void normalise_row(const Normalisation& normalisation, const uint8_t* rgb, int64_t pixels, float* const planes[3]);

}  // namespace ocellus

// The arithmetic of Pillow's resize, for the CPU and for CUDA: conventions of kernels/vision/picture_math.h.
#pragma once

#include "kernels/vision/picture_math.h"

namespace ocellus::picture {

/// Pillow's fixed-point weights.
inline constexpr int kWeightBits = 22;
inline constexpr int32_t kWeightHalf = 1 << (kWeightBits - 1);

/// The source pixels that target pixel `at` averages, and the centre of the filter.
struct ResampleWindow {
  int32_t first;
  int32_t count;
  double center;
  double step;
  /// Position of source pixel first + i in the filter.
  OCELLUS_EVERYWHERE double position(int32_t i) const { return times(first + i - center + 0.5, step); }
};
/// Half the width of the window in source pixels; a reduction widens it.
OCELLUS_EVERYWHERE inline double window_radius(double filter_radius, int32_t source, int32_t target) {
  const double scale = static_cast<double>(source) / target;
  return times(scale > 1.0 ? scale : 1.0, filter_radius);
}
OCELLUS_EVERYWHERE inline ResampleWindow resample_window(double filter_radius, int32_t source, int32_t target,
                                                         int32_t at) {
  const double scale = static_cast<double>(source) / target;
  const double radius = window_radius(filter_radius, source, target);
  const double center = times(at + 0.5, scale);
  const auto first = static_cast<int32_t>(center - radius + 0.5), end = static_cast<int32_t>(center + radius + 0.5);
  const int32_t low = first > 0 ? first : 0;
  return {low, (end < source ? end : source) - low, center, 1.0 / (scale > 1.0 ? scale : 1.0)};
}
/// Maximum number of pixels in a window: its length rounded up, after allowance for rounding of its ends.
inline int32_t window_capacity(double filter_radius, int32_t source, int32_t target) {
  const auto most = static_cast<int32_t>(2.0 * window_radius(filter_radius, source, target) + 1e-6) + 1;
  return most < source ? most : source;
}
OCELLUS_EVERYWHERE inline double sinc(double x) {
  const double angle = times(3.14159265358979323846, x);
  return x == 0.0 ? 1.0 : sin(angle) / angle;
}
OCELLUS_EVERYWHERE inline double lanczos(double x) { return x >= -3.0 && x < 3.0 ? times(sinc(x), sinc(x / 3)) : 0.0; }
OCELLUS_EVERYWHERE inline double bicubic(double distance) {
  constexpr double a = -0.5;
  if (distance < 1.0) return times(times(times(a + 2.0, distance) - (a + 3.0), distance), distance) + 1;
  if (distance < 2.0) return times(times(times(distance - 5, distance) + 8, distance) - 4, a);
  return 0.0;
}
OCELLUS_EVERYWHERE inline double filter_value(Filter filter, double x) {
  const double distance = fabs(x);
  switch (filter) {
    case Filter::kBilinear: return distance < 1.0 ? 1.0 - distance : 0.0;
    case Filter::kBicubic: return bicubic(distance);
    case Filter::kLanczos: return lanczos(x);
  }
  return 0.0;
}
OCELLUS_EVERYWHERE inline double filter_radius(Filter filter) {
  return filter == Filter::kBilinear ? 1.0 : filter == Filter::kBicubic ? 2.0 : 3.0;
}

/// One axis of a resize: the source's pixels begin at `before` of `length` pixels, the others are margins.
struct ResampleAxis {
  Filter filter;
  int32_t source;
  int32_t before;
  int32_t length;
  int32_t output;
};
ResampleAxis resample_axis(const ResamplePictureArgs& args);

/// The part of the source in a window, and the weight of the margins in it.
struct ResampleSpan {
  int32_t first;
  int32_t count;
  int32_t outside;
};
/// Returns the span without the weight.
OCELLUS_EVERYWHERE inline ResampleSpan span_inside(const ResampleAxis& axis, const ResampleWindow& window) {
  const int32_t begin = window.first - axis.before, end = begin + window.count;
  const int32_t first = begin > 0 ? begin : 0, last = end < axis.source ? end : axis.source;
  return {first, last > first ? last - first : 0, 0};
}

OCELLUS_EVERYWHERE inline int32_t fixed_weight(double value, double sum) {
  const double weight = times(sum != 0.0 ? value / sum : value, 1 << kWeightBits);
  return static_cast<int32_t>(weight < 0 ? weight - 0.5 : weight + 0.5);
}
OCELLUS_EVERYWHERE inline uint8_t round_sum(int32_t sum) {
  return static_cast<uint8_t>(clamp_to(sum >> kWeightBits, 0, 255));
}

}  // namespace ocellus::picture

// Angles of rotary positions, for the kernels that compute them.
#pragma once

#include <cmath>

#include "kernels/rows/rope.h"

namespace ocellus::cuda {

inline double octaves_per_pair(const RopeParams& params) {
  return -2.0 * std::log2(static_cast<double>(params.base)) / params.rotated;
}

/// A pair's angle at position 1.
__device__ inline double angle_step(const RopeParams& params, double octaves, int pair) {
  const double step = exp2(octaves * pair) * static_cast<double>(params.position_scale);
  return params.factors == nullptr ? step : step / static_cast<double>(params.factors[pair]);
}

/// Cosine and sine of a pair's angle, rounded once.
__device__ inline float2 turn_at(int position, double step) {
  double sine, cosine;
  sincos(position * step, &sine, &cosine);
  return make_float2(static_cast<float>(cosine), static_cast<float>(sine));
}

}  // namespace ocellus::cuda

// The angles of rotary positions, computed in f64 and rounded once.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/rows/rope.h"

namespace ocellus {

/// Returns the angle of pair `pair` per position.
inline double rope_turn(const RopeParams& params, int64_t pair) {
  const double octaves_per_pair = -2.0 * std::log2(static_cast<double>(params.base)) / params.rotated;
  const double turn =
      std::exp2(octaves_per_pair * static_cast<double>(pair)) * static_cast<double>(params.position_scale);
  return params.factors == nullptr ? turn : turn / static_cast<double>(params.factors[pair]);
}

/// angles[2 * pair] = cosine, angles[2 * pair + 1] = sine
inline void set_rope_angle(int64_t position, double turn, int64_t pair, float* angles) {
  const double angle = static_cast<double>(position) * turn;
  angles[2 * pair] = static_cast<float>(std::cos(angle));
  angles[2 * pair + 1] = static_cast<float>(std::sin(angle));
}

/// Sets the angles of all pairs at one position: angles [rotated].
inline void set_rope_angles(const RopeParams& params, int64_t position, float* angles) {
  for (int64_t i = 0; i < params.rotated / 2; ++i) set_rope_angle(position, rope_turn(params, i), i, angles);
}

}  // namespace ocellus

// YaRN (Peng et al. 2023, section 3.2): pairs of a head that turn seldom within the length that a model was first
// trained for are slowed down, so that it reads longer texts. Pairs that turn often stay, those between are slowed in
// part.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "kernels/rows/rope.h"

namespace ocellus {

struct YarnScaling {
  int32_t length = 0;               // positions; 0: there is no such scaling
  float factor = 1.0f;              // divides the turns of slowed pairs
  float fast = 32.0f, slow = 1.0f;  // turns within the length of pairs that stay, and of those that are slowed

  bool used() const { return length > 0; }

  /// Returns how much slower a pair turns, at all positions: see RopeParams::factors.
  float factor_of(const RopeParams& rope, int32_t pair) const {
    const double low = std::max(std::floor(pair_of(rope, fast)), 0.0);
    const double high = std::min(std::ceil(pair_of(rope, slow)), rope.rotated - 1.0);
    const double width = high == low ? 0.001 : high - low;  // as the published code has it
    const double share = std::clamp((pair - low) / width, 0.0, 1.0);
    return static_cast<float>(1.0 / (1.0 - share + share / static_cast<double>(factor)));
  }

 private:
  /// The pair, or a number between two, that turns so often within the length.
  double pair_of(const RopeParams& rope, float turns) const {
    const double wave = length / (2 * std::numbers::pi * static_cast<double>(turns));
    return rope.rotated * std::log(wave) / (2 * std::log(static_cast<double>(rope.base)));
  }
};

}  // namespace ocellus

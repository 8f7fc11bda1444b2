// Seeded random numbers for tests: the same sequence on every machine, so a failing case can be repeated.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

namespace ocellus::test {

/// SplitMix64 (Steele, Lea and Flood 2014): any seed is a good seed.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t bits() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }
  /// Uniform in [low, high], both included.
  int64_t integer(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(bits() % static_cast<uint64_t>(high - low + 1));
  }
  /// Uniform in [low, high).
  float uniform(float low = -1.0f, float high = 1.0f) {
    return low + (high - low) * static_cast<float>(static_cast<double>(bits() >> 40) * 0x1p-24);
  }
  /// Normal with mean 0 and the given standard deviation (Box and Muller).
  float normal(float deviation = 1.0f) {
    const double radius = std::sqrt(-2.0 * std::log((static_cast<double>(bits() >> 11) + 0.5) * 0x1p-53));
    const double angle = 6.283185307179586 * static_cast<double>(bits() >> 11) * 0x1p-53;
    return deviation * static_cast<float>(radius * std::cos(angle));
  }

  std::vector<float> uniforms(int64_t count, float low = -1.0f, float high = 1.0f) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = uniform(low, high);
    return values;
  }
  std::vector<float> normals(int64_t count, float deviation = 1.0f) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = normal(deviation);
    return values;
  }
  std::vector<uint8_t> bytes(int64_t count) {
    std::vector<uint8_t> values(static_cast<size_t>(count));
    for (uint8_t& value : values) value = static_cast<uint8_t>(bits());
    return values;
  }

 private:
  uint64_t state_;
};

}  // namespace ocellus::test

// The reference answers of the bundled model (float32 PyTorch, tools/train/goldens.py) and the pair they belong to.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "quant/weight_format.h"

namespace ocellus::test {

inline const std::string kSourceDir = OCELLUS_SOURCE_DIR;
inline const std::string kShapeboardDir = kSourceDir + "/tests/data/shapeboard/";

struct ModelPair {
  std::string model;
  std::string mmproj;
};
inline ModelPair bundled_pair() {
  const std::string folder = kSourceDir + "/apps/models/";
  return {folder + "shapeboard-34m-q8_0.gguf", folder + "mmproj-shapeboard-34m-q8_0.gguf"};
}

inline std::vector<uint8_t> read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Reference numbers are stored as halves, which lie within 2.5e-4 of the float32 that was computed (relative error of
/// all together).
inline std::vector<float> read_halves(const std::string& path) {
  const std::vector<uint8_t> bytes = read_bytes(path);
  std::vector<Half> halves(bytes.size() / sizeof(Half));
  std::memcpy(halves.data(), bytes.data(), halves.size() * sizeof(Half));
  std::vector<float> values(halves.size());
  std::transform(halves.begin(), halves.end(), values.begin(), half_to_float);
  return values;
}

inline nlohmann::json read_goldens() { return nlohmann::json::parse(std::ifstream(kShapeboardDir + "goldens.json")); }

/// |a - b| / |b|, Euclidean.
inline double relative_error(const float* a, const std::vector<float>& b) {
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    difference += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    norm += double{b[i]} * b[i];
  }
  return std::sqrt(difference / norm);
}

}  // namespace ocellus::test

// The reference answers of the bundled model (float32 PyTorch, tools/train/goldens.py) and the pair they belong to.
#pragma once

#include <cmath>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

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

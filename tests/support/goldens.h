// The reference answers of the bundled model (float32 PyTorch, tools/train/goldens.py) and the pair they belong to.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ocellus::test {

inline const std::string kSourceDir = OCELLUS_SOURCE_DIR;
inline const std::string kShapeboardDir = kSourceDir + "/tests/data/shapeboard/";

struct ModelPair {
  std::string model;
  std::string mmproj;
};
ModelPair bundled_pair();

std::vector<uint8_t> read_bytes(const std::string& path);

struct Golden {
  int id = 0;
  std::string prompt;               // with "<image>" for each picture
  std::vector<std::string> images;  // files below kShapeboardDir, as first_logits
  std::vector<int32_t> prompt_ids, generated_ids;
  std::string text, first_logits;
};
/// Read once.
const std::vector<Golden>& goldens();

/// |a - b| / |b|, Euclidean.
double relative_error(const float* a, const std::vector<float>& b);

}  // namespace ocellus::test

#include "tests/support/goldens.h"

#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace ocellus::test {

ModelPair bundled_pair() {
  const std::string folder = kSourceDir + "/apps/models/";
  return {folder + "shapeboard-34m-q8_0.gguf", folder + "mmproj-shapeboard-34m-q8_0.gguf"};
}

std::vector<uint8_t> read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

const std::vector<Golden>& goldens() {
  static const std::vector<Golden> all = [] {
    std::vector<Golden> read;
    for (const auto& entry : nlohmann::json::parse(std::ifstream(kShapeboardDir + "goldens.json")))
      read.push_back({entry["id"], entry["prompt"], entry["images"], entry["prompt_ids"], entry["generated_ids"],
                      entry["text"], entry["first_logits"]});
    return read;
  }();
  return all;
}

double relative_error(const float* a, const std::vector<float>& b) {
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    difference += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    norm += double{b[i]} * b[i];
  }
  return std::sqrt(difference / norm);
}

}  // namespace ocellus::test

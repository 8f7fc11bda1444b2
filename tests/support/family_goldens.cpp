#include "tests/support/family_goldens.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

namespace ocellus::test {

nlohmann::json read_family(const std::string& name) {
  return nlohmann::json::parse(std::ifstream(kFamilyDir + name + "/goldens.json"));
}

ModelPair family_pair(const std::string& name) {
  const nlohmann::json family = read_family(name);
  const std::string folder = kFamilyDir + name + "/";
  return {folder + family["model"].get<std::string>(), folder + family["mmproj"].get<std::string>()};
}

namespace {

/// Empty if the golden has another shape.
std::vector<float> sample(const std::vector<float>& got, const nlohmann::json& golden) {
  const int64_t rows = golden["shape"][0], cols = golden["shape"][1], stride = golden["stride"];
  std::vector<float> samples;
  for (int64_t i = 0; std::ssize(got) == rows * cols && i < rows * cols; i += stride)
    samples.push_back(got[static_cast<size_t>(i)]);
  return samples;
}

}  // namespace

double sampled_error(const std::vector<float>& got, const nlohmann::json& golden) {
  const std::vector<float> samples = sample(got, golden);
  return samples.empty() ? INFINITY : relative_error(samples.data(), golden["values"].get<std::vector<float>>());
}

double sampled_distance(const std::vector<float>& got, const nlohmann::json& golden) {
  const std::vector<float> samples = sample(got, golden), expected = golden["values"];
  double largest = samples.size() == expected.size() ? 0.0 : INFINITY;
  for (size_t i = 0; i < samples.size() && i < expected.size(); ++i)
    largest = std::max(largest, std::abs(double{samples[i]} - double{expected[i]}));
  return largest;
}

std::vector<int32_t> expanded_ids(const nlohmann::json& golden) {
  std::vector<int32_t> ids;
  for (const int32_t id : golden["ids"].get<std::vector<int32_t>>())
    ids.insert(ids.end(), static_cast<size_t>(id < 0 ? -id : 1), id < 0 ? -1 : id);
  return ids;
}

}  // namespace ocellus::test

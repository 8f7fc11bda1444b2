// Tiny random models of the vision-language families and what transformers computes with them in float32:
// tests/data/families/<name>, made by tools/convert/make_family_goldens.py.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tests/support/goldens.h"

namespace ocellus::test {

inline const std::string kFamilyDir = kSourceDir + "/tests/data/families/";

nlohmann::json read_family(const std::string& name);
ModelPair family_pair(const std::string& name);

/// Relative error, Euclidean, of the values of a matrix that a golden holds; infinite if it has another shape.
double sampled_error(const std::vector<float>& got, const nlohmann::json& golden);

/// The largest difference of these values.
double sampled_distance(const std::vector<float>& got, const nlohmann::json& golden);

/// A golden's ids with -1 once for each row of a picture.
std::vector<int32_t> expanded_ids(const nlohmann::json& golden);

}  // namespace ocellus::test

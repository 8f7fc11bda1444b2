// Sampling parameters out of range are refused by name. The sampling is tested in
// tests/kernels/sampling/sample_test.cpp.
#include "runtime/forward/sampler.h"

#include <doctest/doctest.h>

#include <limits>
#include <string>

namespace ocellus {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

}  // namespace

TEST_CASE("parameters out of range are named") {
  const auto refusal = [](const SamplerParams& params) -> std::string {
    const Status status = check_sampler_params(params);
    if (status.ok()) return "";
    CHECK(status.code() == Code::kBadArgument);
    return last_failure().sentence;
  };
  CHECK(refusal({}) == "");
  CHECK(refusal({.temperature = 2, .top_k = 1, .top_p = 0.1f, .min_p = 1, .repetition_penalty = 0.5f}) == "");
  for (const float bad : {-0.1f, kNan, kInfinity}) {
    CHECK(refusal({.temperature = bad}).find("temperature") != std::string::npos);
    CHECK(refusal({.repetition_penalty = bad}).find("repetition penalty") != std::string::npos);
  }
  for (const float bad : {-0.1f, 1.1f, kNan, kInfinity}) {
    CHECK(refusal({.top_p = bad}).find("top-p") != std::string::npos);
    CHECK(refusal({.min_p = bad}).find("min-p") != std::string::npos);
  }
  CHECK(refusal({.top_p = 0}).find("top-p") != std::string::npos);
  CHECK(refusal({.top_k = -1}).find("top-k") != std::string::npos);
  CHECK(refusal({.repetition_penalty = 0}).find("repetition penalty") != std::string::npos);
}

}  // namespace ocellus

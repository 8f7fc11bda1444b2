// Sampling parameters out of range are refused by name. The sampling is tested in
// tests/kernels/sampling/sample_test.cpp.
#include "runtime/forward/sampler.h"

#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <vector>

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
  CHECK(refusal({.temperature = 2, .top_k = 1, .top_p = 0.1f, .min_p = 1, .penalties = {.repetition = 0.5f}}) == "");
  for (const float bad : {-0.1f, kNan, kInfinity}) {
    CHECK(refusal({.temperature = bad}).find("temperature") != std::string::npos);
    CHECK(refusal({.top_n_sigma = bad}).find("top-n-sigma") != std::string::npos);
    CHECK(refusal({.penalties = {.repetition = bad}}).find("repetition penalty") != std::string::npos);
    CHECK(refusal({.penalties = {.dry_multiplier = bad}}).find("DRY's multiplier") != std::string::npos);
    CHECK(refusal({.penalties = {.dry_base = bad}}).find("DRY's base") != std::string::npos);
  }
  for (const float bad : {kNan, kInfinity, -kInfinity}) {
    CHECK(refusal({.penalties = {.frequency = bad}}).find("frequency penalty") != std::string::npos);
    CHECK(refusal({.penalties = {.presence = bad}}).find("presence penalty") != std::string::npos);
  }
  CHECK(refusal({.penalties = {.frequency = -2, .presence = -2}}) == "");
  for (const float bad : {-0.1f, 1.1f, kNan, kInfinity}) {
    CHECK(refusal({.top_p = bad}).find("top-p") != std::string::npos);
    CHECK(refusal({.typical_p = bad}).find("typical-p") != std::string::npos);
    CHECK(refusal({.min_p = bad}).find("min-p") != std::string::npos);
  }
  CHECK(refusal({.top_p = 0}).find("top-p") != std::string::npos);
  CHECK(refusal({.top_k = -1}).find("top-k") != std::string::npos);
  CHECK(refusal({.typical_p = 0}).find("typical-p") != std::string::npos);
  CHECK(refusal({.penalties = {.repetition = 0}}).find("repetition penalty") != std::string::npos);
  CHECK(refusal({.penalties = {.dry_length = 0}}).find("DRY's length") != std::string::npos);
}

TEST_CASE("a bias is of a known token, a number, one for each token, and there are few enough") {
  const auto refusal = [](const std::vector<ocellus_logit_bias>& biases, LogitBiases* out) -> std::string {
    const Status status = set_logit_biases(biases.data(), static_cast<int32_t>(biases.size()), 100, out);
    if (status.ok()) return "";
    CHECK(status.code() == Code::kBadArgument);
    return last_failure().sentence;
  };
  LogitBiases out;
  CHECK(refusal({{0, 1.5f}, {99, -100}}, &out) == "");
  CHECK(out.count == 2);
  CHECK(out.tokens[1] == 99);
  CHECK(out.values[1] == -100);
  CHECK(refusal({}, &out) == "");
  CHECK(out.count == 0);
  CHECK(refusal({{100, 1}}, &out).find("token 100") != std::string::npos);
  CHECK(refusal({{-1, 1}}, &out).find("token -1") != std::string::npos);
  CHECK(refusal({{1, kNan}}, &out).find("must be a number") != std::string::npos);
  CHECK(refusal({{1, -kInfinity}}, &out).find("must be a number") != std::string::npos);
  CHECK(refusal({{1, 1}, {2, 1}, {1, 2}}, &out).find("two biases") != std::string::npos);
  std::vector<ocellus_logit_bias> many(kMostLogitBiases + 1);
  for (size_t i = 0; i < many.size(); ++i) many[i].token = static_cast<int32_t>(i);
  CHECK(refusal(many, &out).find("between 0 and 64") != std::string::npos);
  many.pop_back();
  CHECK(refusal(many, &out) == "");
  CHECK_FALSE(set_logit_biases(nullptr, 1, 100, &out).ok());
}

}  // namespace ocellus

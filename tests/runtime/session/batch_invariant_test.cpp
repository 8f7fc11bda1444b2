// Batch invariance: an answer has the same bits whatever is decoded beside it.
#include <doctest/doctest.h>

#include <numeric>

#include "runtime/engine/memory_plan.h"
#include "tests/support/packed_sessions.h"

namespace ocellus {
namespace {

constexpr int32_t kSessions = 11;  // more than are alike anyway

ocellus_generate_params params_of() {
  ocellus_generate_params params = test::default_params(20);
  params.ignore_end = 1;
  return params;
}

TEST_CASE("a batch-invariant answer has the bits that it has alone, in batches of any size") {
  for (const int32_t bits : {16, 2}) {
    CAPTURE(bits);
    ocellus_limits limits = test::packed_limits(3, 200, bits);
    limits.max_sessions = kSessions;
    limits.batch_invariant = 1;
    const auto engine = test::make_engine(limits);
    std::vector<Session*> sessions;
    std::vector<test::Answer> alone;
    for (int i = 0; i < kSessions; ++i) {
      sessions.push_back(&test::open_session(*engine));
      test::add_question(*sessions.back(), test::golden(i % 7));
      alone.push_back(test::answer_of(*sessions.back(), params_of()));
    }
    for (const size_t count : {2u, 3u, 5u, 11u}) {
      for (size_t i = 0; i < count; ++i) {
        sessions[i]->reset();
        test::add_question(*sessions[i], test::golden(static_cast<int>(i % 7)));
      }
      const auto end = sessions.begin() + static_cast<std::ptrdiff_t>(count);
      const std::vector<test::Answer> together = test::batch_answers({sessions.begin(), end}, params_of());
      for (size_t i = 0; i < count; ++i) test::check_equal(together[i], alone[i]);
    }
  }
}

TEST_CASE("more sessions than can be batch-invariant are refused") {
  ocellus_limits limits = test::board_limits(0, 16);
  limits.max_sessions = 65;
  limits.batch_invariant = 1;
  ocellus_plan plan;
  CHECK(plan_memory(test::any_model(), limits, &plan).code() == Code::kBadArgument);
  limits.max_sessions = 64;
  CHECK(plan_memory(test::any_model(), limits, &plan).ok());
  limits.batch_invariant = 2;
  CHECK(plan_memory(test::any_model(), limits, &plan).code() == Code::kBadArgument);
}

}  // namespace
}  // namespace ocellus

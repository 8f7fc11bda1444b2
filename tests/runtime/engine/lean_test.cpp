// Lean engines: less scratch, the same answers.
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/engine/memory_plan.h"
#include "tests/support/cache_texts.h"
#include "tests/support/packed_sessions.h"

namespace ocellus {
namespace {

using test::first_logits;
using test::make_engine;
using test::open_session;

/// Engines that differ in nothing but scratch.
struct Twins {
  explicit Twins(ocellus_limits limits) : usual(make_engine(limits)) {
    limits.lean = 1;
    lean = make_engine(limits);
  }
  std::unique_ptr<Engine> usual, lean;
};

/// The largest relative distance between the first logits over some reference prompts. On the CPU, where every row is
/// computed alone, there must be none, and answers must be equal; what tokens follow nearly equal logits is not asked.
double worst_first_logits(const Twins& twins, const std::vector<int>& prompts) {
  const bool on_cpu = !twins.usual->queue().on_cuda();
  double worst = 0;
  for (const int id : prompts) {
    CAPTURE(id);
    std::vector<float> logits[2];
    test::Answer answers[2];
    for (int i = 0; i < 2; ++i) {
      Session& session = open_session(i == 0 ? *twins.usual : *twins.lean);
      test::add_question(session, test::golden(id));
      logits[i] = first_logits(session);
      answers[i] = test::answer_of(session, test::default_params(24));
      CHECK(answers[i].status.ok());
      session.close();
    }
    worst = std::max(worst, test::relative_error(logits[1].data(), logits[0]));
    if (!on_cpu) continue;
    CHECK(logits[0] == logits[1]);
    CHECK(answers[0].text == answers[1].text);
    CHECK(answers[0].stats.logits_hash == answers[1].stats.logits_hash);
  }
  return worst;
}

}  // namespace

TEST_CASE("lean engines answer as usual ones do" * doctest::test_suite("long")) {
  for (const int32_t prompt_rows : {0, 96}) {
    CAPTURE(prompt_rows);
    ocellus_limits limits = test::board_limits(4, 200);
    limits.max_prompt_rows = prompt_rows;
    const double worst = worst_first_logits(Twins(limits), {0, 1, 3, 12, 13});
    MESSAGE("first logits, " << prompt_rows << " prompt rows: " << worst);
    CHECK(worst < 6e-2);  // as far as rounding inputs to codes or to f16 goes, see backends_test
  }
}

TEST_CASE("lean engines pack and choose what usual ones do" * doctest::test_suite("long")) {
  for (const std::string_view method : {"none", "snapkv", "david"})
    for (const ocellus_compress_at at : {OCELLUS_COMPRESS_BEFORE_SUFFIX, OCELLUS_COMPRESS_IMAGE_END})
      for (const int32_t bits : {16, 2}) {
        CAPTURE(method);
        CAPTURE(at);
        CAPTURE(bits);
        ocellus_limits limits = test::evicting_limits(4, 200, method, method == "none" ? 1.0f : 0.5f, bits, at);
        test::add_option(limits.cache.kv_scheme, "tau-high=2");
        const double worst = worst_first_logits(Twins(limits), {1, 13});
        MESSAGE("first logits, " << bits << " bits, rule " << method << ": " << worst);
        CHECK(worst < 0.3);  // nearly equal scores may choose other slots
      }
}

TEST_CASE("a lean engine's scratch is a fraction of the usual one") {
  ocellus_limits limits = test::board_limits(4, 200);
  limits.max_prompt_rows = 96;
  limits.max_whole_pixels = 1;  // a picture that is held whole takes more than either
  ocellus_plan usual, lean;
  REQUIRE(plan_memory(test::bundled_model(), limits, &usual).ok());
  limits.lean = 1;
  REQUIRE(plan_memory(test::bundled_model(), limits, &lean).ok());
  CHECK(lean.scratch_bytes < usual.scratch_bytes);
  CHECK(lean.weights_bytes == usual.weights_bytes);
  CHECK(lean.session_bytes <= usual.session_bytes);
}

}  // namespace ocellus

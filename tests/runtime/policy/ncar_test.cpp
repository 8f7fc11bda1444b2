// DAVID's observations: NCAR by layer, the switch, and the shares of the slots before it.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "runtime/ocellus.h"
#include "tests/support/cache_texts.h"
#include "tests/support/packed_sessions.h"

namespace ocellus {
namespace {

using test::answer_of;
using test::default_params;
using test::evicting_limits;
using test::make_engine;
using test::open_session;

constexpr int32_t kLayers = 8, kHeads = 4, kImageSlots = 64;  // the bundled model's

ocellus_session* handle(Session& session) { return reinterpret_cast<ocellus_session*>(&session); }

struct Seen {
  std::vector<float> theta;
  int32_t switch_layer = -7;
};
Seen seen_by(Session& session) {
  Seen seen;
  int32_t count = -1;
  seen.theta.assign(NcarState::kMaxLayers, -5.0f);
  REQUIRE(ocellus_session_get_ncar(handle(session), seen.theta.data(), NcarState::kMaxLayers, &count,
                                   &seen.switch_layer) == OCELLUS_OK);
  REQUIRE(count <= kLayers);
  for (size_t i = static_cast<size_t>(count); i < seen.theta.size(); ++i) CHECK(seen.theta[i] == -5.0f);
  seen.theta.resize(static_cast<size_t>(count));
  return seen;
}

void ask(Session& session) {
  REQUIRE(test::add_turn(session, "<image>What is on the left?", {"images/115.png"}).ok());
  REQUIRE_MESSAGE(answer_of(session, default_params(0)).status.ok(), last_failure().sentence);
}

}  // namespace

TEST_CASE("NCAR stands where the readings of DAVID's switch say" * doctest::test_suite("long")) {
  for (const std::string_view reading : {"small-drop", "large-drop", "low", "layer"}) {
    for (const float threshold : {-1.0f, 0.0f, 0.3f, 3.0f, 100.0f}) {
      const bool at_layer = reading == "layer";
      if (at_layer && threshold != std::floor(std::abs(threshold))) continue;
      CAPTURE(reading);
      CAPTURE(threshold);
      ocellus_limits limits = evicting_limits(1, 120, "david", 0.5f);
      const std::string value = std::to_string(threshold);
      test::add_option(limits.cache.evict, at_layer ? "switch=" + value : "switch=" + std::string(reading));
      if (!at_layer) test::add_option(limits.cache.evict, "threshold=" + value);
      const std::unique_ptr<Engine> engine = test::make_bundled_engine(limits);
      Session& session = open_session(*engine);
      ask(session);
      const Seen seen = seen_by(session);
      int32_t expected = -1;
      for (int32_t m = 0; m < static_cast<int32_t>(seen.theta.size()) && expected < 0; ++m) {
        const float theta = seen.theta[static_cast<size_t>(m)];
        const float before = m == 0 ? 1.0f : seen.theta[static_cast<size_t>(m - 1)];
        CHECK(std::isfinite(theta));
        CHECK(theta >= 0);
        const bool switches = reading == "small-drop"   ? before - theta < threshold
                              : reading == "large-drop" ? before - theta > threshold
                              : reading == "low"        ? theta < threshold
                                                        : static_cast<float>(m) >= threshold;
        if (switches) expected = m;
      }
      CHECK(seen.switch_layer == expected);
      CHECK(static_cast<int32_t>(seen.theta.size()) == (expected < 0 ? kLayers : expected + 1));
    }
  }
}

TEST_CASE("until the switch the modalities have their shares, from then on the best win" *
          doctest::test_suite("long")) {
  for (const float rho : {0.0f, 0.5f, 2.0f}) {
    for (const int32_t line_28 : {0, 1}) {
      ocellus_limits limits = evicting_limits(4, 200, "david", 0.3f, 8);
      test::set_text(limits.cache.evict, "david:switch=5,rho=" + std::to_string(rho));
      test::add_option(limits.cache.evict, line_28 != 0 ? "shares=line-28" : "shares=defined");
      const std::unique_ptr<Engine> engine = test::make_bundled_engine(limits);
      Session& session = open_session(*engine);
      REQUIRE(test::add_turn(session,
                             "1:<image>\n2:<image>\n3:<image>\n4:<image>\nHow many shapes are there in image 4?",
                             test::golden(12).images)
                  .ok());
      REQUIRE(answer_of(session, default_params(0)).status.ok());
      CHECK(seen_by(session).switch_layer == 5);
      CHECK(seen_by(session).theta.size() == 6);
      const int64_t rows = session.next_position();
      const int64_t kept = rows * 3 / 10, window = 16, budget = kept - window;
      const double share = line_28 != 0 ? 1 / (1 + rho) : rho / (1 + rho);
      const int64_t text_rows = rows - 4 * kImageSlots - window;  // the window is text: question and suffix
      const int64_t quota = static_cast<int64_t>(std::floor(static_cast<double>(budget) * share));
      const int64_t visual = std::max(quota, budget - text_rows);
      const test::KeptCounts counts = test::kept_counts(session, 0);
      int different = 0;
      for (int32_t i = 0; i < kLayers * kHeads; ++i) {
        if (i / kHeads < 5) CHECK(counts.visual[static_cast<size_t>(i)] == visual);
        different += counts.visual[static_cast<size_t>(i)] != visual;
      }
      CHECK(different > kHeads);  // three layers without any
    }
  }
}

TEST_CASE("NCAR is there after a prompt with images, for as long as it is remembered") {
  const std::unique_ptr<Engine> engine = make_engine(evicting_limits(2, 200, "david", 0.5f, 4));
  Session& session = open_session(*engine);
  CHECK(seen_by(session).theta.empty());
  CHECK(seen_by(session).switch_layer == -1);
  ask(session);
  const Seen first = seen_by(session);
  REQUIRE(!first.theta.empty());
  REQUIRE(answer_of(session).status.ok());
  CHECK(seen_by(session).theta == first.theta);
  // A prompt without images adds nothing.
  REQUIRE(test::add_turn(session, "What color is the background?", {}).ok());
  REQUIRE(answer_of(session, default_params(2)).status.ok());
  CHECK(seen_by(session).theta == first.theta);
  // Room for fewer.
  float theta[2] = {-5, -5};
  int32_t count = 0, layer = 0;
  CHECK(ocellus_session_get_ncar(handle(session), theta, 1, &count, &layer) == OCELLUS_OK);
  CHECK(count == static_cast<int32_t>(first.theta.size()));
  CHECK(theta[0] == first.theta[0]);
  CHECK(theta[1] == -5);
  CHECK(ocellus_session_get_ncar(handle(session), nullptr, 0, &count, &layer) == OCELLUS_OK);
  CHECK(ocellus_session_get_ncar(handle(session), nullptr, 3, &count, &layer) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_session_get_ncar(handle(session), theta, -1, &count, &layer) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_session_get_ncar(handle(session), theta, 2, nullptr, &layer) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_session_get_ncar(handle(session), theta, 2, &count, nullptr) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_session_get_ncar(nullptr, theta, 2, &count, &layer) == OCELLUS_BAD_ARGUMENT);
  session.reset();
  CHECK(seen_by(session).theta.empty());
  ask(session);
  CHECK(seen_by(session).theta == first.theta);
  CHECK(seen_by(session).switch_layer == first.switch_layer);
}

TEST_CASE("nobody looks at NCAR but DAVID among all rows of a prompt") {
  for (const ocellus_limits& limits :
       {test::board_limits(1, 100), evicting_limits(1, 100, "snapkv", 0.5f), evicting_limits(1, 100, "david", 1.0f),
        evicting_limits(1, 100, "david", 0.5f, 16, OCELLUS_COMPRESS_IMAGE_END)}) {
    const std::unique_ptr<Engine> engine = make_engine(limits);
    Session& session = open_session(*engine);
    int32_t count = 0, layer = 0;
    CHECK(ocellus_session_get_ncar(handle(session), nullptr, 0, &count, &layer) == OCELLUS_BAD_ARGUMENT);
    CHECK(std::string(ocellus_last_error()->sentence).find("david") != std::string::npos);
  }
}

}  // namespace ocellus

// Positions in a plan: those of pictures, compared with those of a conversation, and their files' pixels.
#include <doctest/doctest.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/plans.h"

namespace ocellus {

using test::plan_of;

TEST_CASE("an image takes the positions of its views and of the tokens around them") {
  const ocellus_plan plan = plan_of(test::board_limits(8, 200));
  CHECK(plan.positions_per_image == 64 + test::bundled_model().delimiter_tokens({}));
  CHECK(plan_of(test::board_limits(0, 200)).positions_per_image == plan.positions_per_image);
  const std::unique_ptr<Engine> engine = test::make_engine(test::board_limits(2, 64));
  const auto position_after = [&](const std::vector<std::string>& images) {
    Session& session = test::open_session(*engine);
    std::string prompt = "Hello.";
    for (size_t i = 0; i < images.size(); ++i) prompt = "<image>" + prompt;
    REQUIRE(test::add_turn(session, prompt, images).ok());
    REQUIRE(test::answer_of(session, test::default_params(1)).status.ok());
    const int64_t position = session.next_position();
    session.close();
    return position;
  };
  const int64_t without = position_after({});
  CHECK(position_after({"images/113.png"}) - without == plan.positions_per_image);
  CHECK(position_after({"images/113.png", "images/115.png"}) - without == 2 * plan.positions_per_image);
}

TEST_CASE("pictures that do not come row by row take four bytes a pixel, and without a limit two megapixels or less") {
  ocellus_limits limits = test::board_limits(1, 64);
  limits.device = OCELLUS_DEVICE_CPU;
  limits.max_image_pixels = 4000 * 3000;
  const int64_t usual = plan_of(limits).total_bytes;
  limits.max_whole_pixels = 1920 * 1080;
  CHECK(plan_of(limits).total_bytes == usual);
  limits.max_whole_pixels = 4000 * 3000;
  CHECK(plan_of(limits).total_bytes == usual + 4 * (4000 * 3000 - 1920 * 1080));
  limits.budget_bytes = usual;
  const ocellus_plan plan = plan_of(limits);
  int64_t most = 0;
  for (const ocellus_advice& advice : plan.advice) {
    if (std::strstr(advice.text, "pixels per picture decoded as a whole instead of 12000000") != nullptr)
      most = std::atoll(advice.text + std::strlen("at most "));
  }
  CHECK(most >= 1920 * 1080);
  CHECK(most < 1920 * 1080 + 256);  // sizes are rounded up
}

TEST_CASE("where fewer tiles of a picture are enough, the plan says how many") {
  Model model;
  REQUIRE(model.open_shape("SmolVLM-256M", "Q4_0", 1).ok());
  ocellus_limits limits = test::board_limits(2, 64);
  ocellus_plan plan;
  limits.max_tiles = 1;
  REQUIRE(plan_memory(model, limits, &plan).ok());
  limits.budget_bytes = plan.total_bytes;
  limits.max_tiles = 0;
  REQUIRE(plan_memory(model, limits, &plan).ok());
  CHECK(plan.fits == 0);
  const ocellus_advice* found = nullptr;
  for (const ocellus_advice& advice : plan.advice)
    if (std::strstr(advice.text, "tiles per picture instead of 16 (max_tiles)") != nullptr) found = &advice;
  REQUIRE(found != nullptr);
  limits.max_tiles = std::atoi(found->text + std::strlen("at most "));
  const int64_t total = found->total_bytes;
  REQUIRE(plan_memory(model, limits, &plan).ok());
  CHECK(plan.fits == 1);
  CHECK(plan.total_bytes == total);
  ++limits.max_tiles;
  REQUIRE(plan_memory(model, limits, &plan).ok());
  CHECK(plan.fits == 0);
}

}  // namespace ocellus

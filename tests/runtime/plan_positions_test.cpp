// What a plan says of the model's positions, held against what a conversation takes.
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/support/plans.h"

namespace ocellus {

using test::plan_of;

TEST_CASE("an image takes the positions of its views and of the tokens around them") {
  const ocellus_plan plan = plan_of(test::board_limits(8, 200));
  CHECK(plan.positions_per_image == 64 + test::bundled_model().delimiter_tokens(1));
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

}  // namespace ocellus

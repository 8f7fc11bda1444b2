// Sessions that share images on the device allocate nothing. The program counts calls: it is that of
// allocation_test.cpp.
#include <doctest/doctest.h>

#include <string>

#include "tests/support/call_counter.h"
#include "tests/support/packed_sessions.h"

namespace ocellus {

TEST_CASE("sessions that share images on the device allocate nothing") {
  ocellus_limits limits = test::packed_limits(2, 100, 16);
  limits.max_sessions = 2;
  limits.reuse = OCELLUS_REUSE_MPIC;
  limits.reuse_rows = 8;
  limits.shared_images = 2;
  const std::unique_ptr<Engine> engine = test::make_engine(limits);
  Session* const sessions[] = {&test::open_session(*engine), &test::open_session(*engine)};
  const std::vector<uint8_t> pictures[] = {test::board_bytes("images/113.png"), test::board_bytes("images/115.png"),
                                           test::board_bytes("images/024.png")};
  int32_t hits = 0, failures = 0;
  const ocellus_generate_params params = test::default_params(4);
  const auto talk = [&](size_t i) {
    Session& session = *sessions[i % 2];
    const std::vector<uint8_t>& picture = pictures[i / 2 % 3];
    ocellus_generate_stats stats = {};
    Session* asked = &session;
    session.reset();
    failures += session.begin_turn().ok() ? 0 : 1;
    failures += session.add_encoded_image(picture.data(), std::ssize(picture)).ok() ? 0 : 1;
    failures += session.end_turn().ok() ? 0 : 1;
    failures += generate(&asked, &params, &stats, 1).ok() ? 0 : 1;
    hits += stats.shared_image_hits;
  };
  {
    const test::CallCounter counter;
    for (size_t i = 0; i < 30; ++i) talk(i);  // found, and computed in another one's place
  }
  CHECK(test::report_calls() == 0);
  CHECK(test::driver_calls() <= test::kMaxDriverCalls);
  CHECK(failures == 0);
  CHECK(hits == 15);
}

}  // namespace ocellus

// Drafts, kept views, reductions and choices allocate nothing. The program counts calls: it is that of
// allocation_test.cpp.
#include <doctest/doctest.h>

#include "runtime/branches/measure/score.h"
#include "tests/support/cache_texts.h"
#include "tests/support/call_counter.h"
#include "tests/support/loaded_engine.h"

namespace ocellus {

namespace {

void check_calls(const char* reduce) {
  CAPTURE(std::string(reduce));
  ocellus_limits limits = test::board_limits(1, 120);
  limits.draft_rows = 7;
  limits.kept_views = 20;
  limits.view_change = 0.01f;
  test::set_text(limits.reduce, reduce);
  limits.reduce_keep = 0.75f;
  const std::unique_ptr<Engine> engine = test::make_bundled_engine(limits);
  Session* session = &test::open_session(*engine);
  const std::vector<uint8_t> picture = test::board_bytes("images/115.png");
  ocellus_generate_params params = test::default_params(40);
  params.ignore_end = 1;
  ocellus_generate_stats stats = {};
  ocellus_choice choice = {"A large cyan star.", 18, 0, 0, 0};
  int32_t failures = 0;
  {
    const test::CallCounter counter;
    for (const ocellus_draft kind : {OCELLUS_DRAFT_LOOKUP, OCELLUS_DRAFT_AUTO, OCELLUS_DRAFT_LAST}) {
      params.draft = kind;
      session->reset();
      failures += session->begin_turn().ok() ? 0 : 1;
      failures += session->add_encoded_image(picture.data(), std::ssize(picture)).ok() ? 0 : 1;
      failures += session->end_turn().ok() ? 0 : 1;
      failures += score_choices(*session, &choice, 1).ok() ? 0 : 1;
      failures += generate(&session, &params, &stats, 1).ok() ? 0 : 1;
    }
  }
  CHECK(test::report_calls() == 0);
  CHECK(failures == 0);
  CHECK(choice.log_probability < 0);
  CHECK(stats.accepted_tokens > 30);
  CHECK(stats.known_views > 0);
  CHECK(stats.encoded_views == 0);
}

}  // namespace

TEST_CASE("drafts, kept views, reductions and choices allocate nothing") {
  for (const char* const reduce : {"cover-rows", "fastv"}) check_calls(reduce);
}

}  // namespace ocellus

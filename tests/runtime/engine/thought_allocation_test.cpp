// Thoughts, bounded and closed at once: what is written around them is ready when the model is opened.
#include <doctest/doctest.h>

#include <string_view>

#include "runtime/ocellus.h"
#include "tests/support/c_handles.h"
#include "tests/support/call_counter.h"
#include "tests/support/thinking_model.h"

namespace {

using namespace ocellus::test;

int count_text(void* user, const char*, int32_t bytes) {
  *static_cast<int64_t*>(user) += bytes;
  return 0;
}

TEST_CASE("thoughts allocate nothing either") {
  const TemporaryFile text = thinking_file("<think>\\n");
  ocellus_limits limits;
  ocellus_limits_init(&limits);
  limits.thread_count = 2;
  limits.max_images = 0;
  limits.max_text_tokens = 200;
  const CHandles opened({text.c_str(), bundled_pair().mmproj}, limits);
  ocellus_session* const session = opened.session;
  constexpr std::string_view kQuestion = "What is on the left?";
  int64_t answer_bytes = 0, thought_bytes = 0;
  ocellus_generate_params params;
  ocellus_generate_params_init(&params);
  params.max_tokens = 20;
  params.ignore_end = 1;
  params.on_text = params.on_thought = count_text;
  params.user = &answer_bytes;
  params.thought_user = &thought_bytes;
  int32_t failures = 0, tokens = 0, thought_tokens = 0, mark_tokens = 0;
  {
    const CallCounter counter;
    for (const int32_t most : {0, 30}) {
      params.max_thought_tokens = most;
      ocellus_generate_stats stats = {};
      failures += ocellus_session_reset(session) != OCELLUS_OK;
      failures += ocellus_session_begin_turn(session) != OCELLUS_OK;
      failures += ocellus_session_add_text(session, kQuestion.data(), std::ssize(kQuestion), 0) != OCELLUS_OK;
      failures += ocellus_session_end_turn(session) != OCELLUS_OK;
      failures += ocellus_session_generate(session, &params, &stats) != OCELLUS_OK;
      tokens += stats.generated_tokens;
      thought_tokens += stats.thought_tokens;
      mark_tokens += stats.thought_mark_tokens;
    }
  }
  CHECK(report_calls() == 0);
  CHECK(failures == 0);
  CHECK(tokens == 40);
  CHECK(thought_tokens == 30);
  CHECK(mark_tokens == 4 + 5);
  CHECK(answer_bytes > 0);
  CHECK(thought_bytes > 0);
}

}  // namespace

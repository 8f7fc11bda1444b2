// Layers that see the newest positions only: their lists are planned, too.
#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "runtime/ocellus.h"
#include "tests/support/c_handles.h"
#include "tests/support/call_counter.h"
#include "tests/support/goldens.h"

namespace {

using namespace ocellus::test;

TEST_CASE("text in layers with a window allocates nothing either") {
  ocellus_model* model = nullptr;
  REQUIRE(ocellus_model_open_shape("Gemma3-270M", "Q4_0", 6, &model) == OCELLUS_OK);
  ocellus_engine_config config;
  ocellus_engine_config_init(&config);
  config.limits.thread_count = 2;
  config.limits.max_images = 0;
  config.limits.max_text_tokens = 900;
  config.limits.max_prompt_rows = 300;
  ocellus_engine* engine = nullptr;
  ocellus_session* session = nullptr;
  REQUIRE(ocellus_engine_create(model, &config, &engine) == OCELLUS_OK);
  REQUIRE(ocellus_session_open(engine, &session) == OCELLUS_OK);
  const std::string text(580, 'a');  // more than a window
  ocellus_generate_params params;
  ocellus_generate_params_init(&params);
  params.max_tokens = 6;
  params.ignore_end = 1;
  int32_t failures = 0, tokens = 0;
  {
    const CallCounter counter;
    for (int32_t round = 0; round < 2; ++round) {
      failures += ocellus_session_reset(session) != OCELLUS_OK;
      for (const int64_t length : {std::ssize(text), std::ptrdiff_t{30}}) {
        ocellus_generate_stats stats = {};
        failures += ocellus_session_add_text(session, text.data(), length, 0) != OCELLUS_OK;
        failures += ocellus_session_generate(session, &params, &stats) != OCELLUS_OK;
        tokens += stats.generated_tokens;
      }
    }
  }
  CHECK(report_calls() == 0);
  CHECK(failures == 0);
  CHECK(tokens == 24);
  ocellus_engine_destroy(engine);
  ocellus_model_close(model);
}

TEST_CASE("pictures whose rows see each other allocate nothing either") {
  const std::string folder = std::string(OCELLUS_SOURCE_DIR) + "/tests/data/families/gemma3/";
  const std::vector<uint8_t> picture = read_bytes(std::string(OCELLUS_SOURCE_DIR) + "/apps/samples/board_01.png");
  ocellus_limits limits;
  ocellus_limits_init(&limits);
  limits.thread_count = 2;
  limits.max_images = 4;
  limits.max_text_tokens = 200;
  limits.max_prompt_rows = 24;
  const CHandles opened({folder + "model.gguf", folder + "mmproj.gguf"}, limits);
  ocellus_session* const session = opened.session;
  constexpr std::string_view kQuestion = "What is on the left?\n\n";
  ocellus_generate_params params;
  ocellus_generate_params_init(&params);
  params.max_tokens = 20;
  params.ignore_end = 1;
  int32_t failures = 0, tokens = 0;
  {
    const CallCounter counter;
    for (int32_t turn = 0; turn < 4; ++turn) {
      ocellus_generate_stats stats = {};
      failures += ocellus_session_begin_turn(session) != OCELLUS_OK;
      failures += ocellus_session_add_encoded_image(session, picture.data(), std::ssize(picture)) != OCELLUS_OK;
      failures += ocellus_session_add_text(session, kQuestion.data(), std::ssize(kQuestion), 0) != OCELLUS_OK;
      failures += ocellus_session_end_turn(session) != OCELLUS_OK;
      failures += ocellus_session_generate(session, &params, &stats) != OCELLUS_OK;
      tokens += stats.generated_tokens;
    }
  }
  CHECK(report_calls() == 0);
  CHECK(failures == 0);
  CHECK(tokens == 80);
}

TEST_CASE("convolutions that go on from linked pictures and from marks allocate nothing either") {
  const std::string folder = std::string(OCELLUS_SOURCE_DIR) + "/tests/data/families/lfm2-vl/";
  const std::vector<uint8_t> picture = read_bytes(std::string(OCELLUS_SOURCE_DIR) + "/apps/samples/board_01.png");
  ocellus_limits limits;
  ocellus_limits_init(&limits);
  limits.thread_count = 2;
  limits.max_images = 1;
  limits.max_text_tokens = 200;
  limits.reuse = OCELLUS_REUSE_MPIC;
  limits.reuse_rows = 2;
  const CHandles opened({folder + "model.gguf", folder + "mmproj.gguf"}, limits);
  ocellus_session* const session = opened.session;
  constexpr std::string_view kBegin = "Look at this: ", kQuestion = "What is on the left?";
  ocellus_generate_params params;
  ocellus_generate_params_init(&params);
  params.max_tokens = 60;
  params.ignore_end = 1;
  int32_t failures = 0, tokens = 0;
  {
    const CallCounter counter;
    failures += ocellus_session_add_text(session, kBegin.data(), std::ssize(kBegin), 0) != OCELLUS_OK;
    failures += ocellus_session_mark(session) != OCELLUS_OK;
    for (int32_t turn = 0; turn < 4; ++turn) {
      ocellus_generate_stats stats = {};
      failures += ocellus_session_add_encoded_image(session, picture.data(), std::ssize(picture)) != OCELLUS_OK;
      failures += ocellus_session_add_text(session, kQuestion.data(), std::ssize(kQuestion), 0) != OCELLUS_OK;
      failures += ocellus_session_generate(session, &params, &stats) != OCELLUS_OK;
      tokens += stats.generated_tokens;
      int32_t found = 0;
      failures += ocellus_session_rewind(session, &found) != OCELLUS_OK || found == 0;
    }
  }
  CHECK(report_calls() == 0);
  CHECK(failures == 0);
  CHECK(tokens == 240);
}

}  // namespace

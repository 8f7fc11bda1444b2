// The shortest conversation that uses every part of a pair: some text, one picture, an answer of two tokens.
#pragma once

#include <memory>
#include <vector>

#include "runtime/engine.h"
#include "runtime/memory_plan.h"
#include "tests/support/goldens.h"
#include "tests/support/small_pair.h"

namespace ocellus::test {

/// Files made to do harm may ask for plans no test should carry out.
inline constexpr int64_t kMostTalkBytes = int64_t{256} << 20;

inline ocellus_limits talk_limits(const Model& model) {
  ocellus_limits limits;
  ocellus_limits_init(&limits);
  limits.thread_count = 1;
  limits.max_images = model.has_vision() ? 1 : 0;
  limits.max_text_tokens = 64;
  limits.max_image_pixels = 256 * 256;
  limits.budget_bytes = kMostTalkBytes;
  return limits;
}

/// Every step may fail, none may do harm. kOverBudget if the plan is larger than kMostTalkBytes.
inline Status talk(const Model& model) {
  ocellus_engine_config config;
  ocellus_engine_config_init(&config);
  config.limits = talk_limits(model);
  std::unique_ptr<Engine> engine;
  OCELLUS_TRY(Engine::create(model, config, &engine));
  Session* session = nullptr;
  OCELLUS_TRY(engine->open_session(&session));
  OCELLUS_TRY(session->begin_turn());
  OCELLUS_TRY(session->add_text("What is", false));
  if (model.has_vision()) {
    static const std::vector<uint8_t> picture = read_bytes(kShapeboardDir + "images/004.png");
    OCELLUS_TRY(session->add_encoded_image(picture.data(), static_cast<int64_t>(picture.size())));
  }
  OCELLUS_TRY(session->end_turn());
  ocellus_generate_params params;
  ocellus_generate_params_init(&params);
  params.max_tokens = 2;
  params.ignore_end = 1;
  ocellus_generate_stats stats;
  return generate(&session, &params, &stats, 1);
}

inline Status open_and_talk(const GgufBuilder& text, const GgufBuilder& vision) {
  const TemporaryFile text_file(text);
  const TemporaryFile vision_file(vision);
  Model model;
  OCELLUS_TRY(model.open(text_file.c_str(), vision_file.c_str()));
  return talk(model);
}

}  // namespace ocellus::test

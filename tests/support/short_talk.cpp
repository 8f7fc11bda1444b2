#include "tests/support/short_talk.h"

namespace ocellus::test {

ocellus_limits talk_limits(const Model& model) {
  ocellus_limits limits;
  ocellus_limits_init(&limits);
  limits.thread_count = 1;
  limits.max_images = model.has_vision() ? 1 : 0;
  limits.max_text_tokens = 64;
  limits.max_image_pixels = 256 * 256;
  limits.budget_bytes = kMaxTalkBytes;
  return limits;
}

Status talk(const Model& model) {
  ocellus_engine_config config;
  ocellus_engine_config_init(&config);
  config.limits = talk_limits(model);
  std::unique_ptr<Engine> engine;
  OCELLUS_TRY(Engine::create(model, config, &engine));
  static const std::vector<uint8_t> picture = read_bytes(kShapeboardDir + "images/004.png");
  return hear_short_answer(*engine, model.has_vision() ? picture : std::vector<uint8_t>());
}

Status open_and_talk(const GgufBuilder& text, const GgufBuilder& vision) {
  const TemporaryFile text_file(text);
  const TemporaryFile vision_file(vision);
  Model model;
  OCELLUS_TRY(model.open(text_file.c_str(), vision_file.c_str()));
  return talk(model);
}

}  // namespace ocellus::test

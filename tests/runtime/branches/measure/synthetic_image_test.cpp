// Made-up images: the plan counts them, sessions decode over them, and nothing else changes.
#include "runtime/branches/measure/synthetic_image.h"

#include <doctest/doctest.h>

#include "runtime/engine/memory_plan.h"
#include "tests/support/cache_texts.h"
#include "tests/support/loaded_engine.h"

namespace ocellus {
namespace {

using test::answer_of;
using test::default_params;
using test::make_engine;
using test::open_session;

constexpr int32_t kTokens = 150;  // no multiple of a tile

ocellus_limits synthetic_limits(int32_t bits, float keep) {
  ocellus_limits limits = test::board_limits(0, 64);
  limits.max_sessions = 2;
  limits.synthetic_tokens = kTokens;
  limits.cache.kv_bits = bits;
  limits.cache.keep = keep;
  if (keep < 1) test::set_text(limits.cache.evict, "snapkv");
  return limits;
}

/// The hash of the last logits after one token over the image.
uint64_t answer_over_image(Session& session, ocellus_generate_stats* stats) {
  const TokenId token = 300;
  session.reset();
  REQUIRE_MESSAGE(add_synthetic_image(session).ok(), last_failure().sentence);
  REQUIRE(session.add_tokens(&token, 1).ok());
  ocellus_generate_params params = default_params(5);
  params.ignore_end = 1;
  const test::Answer answer = answer_of(session, params);
  REQUIRE_MESSAGE(answer.status.ok(), last_failure().sentence);
  *stats = answer.stats;
  return answer.stats.logits_hash;
}

}  // namespace

TEST_CASE("a session decodes over a made-up image in every format, the same each time") {
  for (const int32_t bits : {16, 8, 4, 2, 1}) {
    for (const float keep : {1.0f, 0.2f}) {
      CAPTURE(bits);
      CAPTURE(keep);
      const std::unique_ptr<Engine> engine = make_engine(synthetic_limits(bits, keep));
      const KvShape& kv = engine->shape().kv;
      const int64_t slots = keep < 1 ? kTokens / 5 : kTokens;
      CHECK(kv.image_slots == slots);
      Session& session = open_session(*engine);
      Session& other = open_session(*engine);
      ocellus_generate_stats stats = {}, again = {};
      const uint64_t hash = answer_over_image(session, &stats);
      CHECK(answer_over_image(other, &again) == hash);
      CHECK(answer_over_image(session, &again) == hash);
      const int64_t text = 1 + 4;  // the prompt, and the answer but its last token
      CHECK(stats.kv_bytes == text * kv.slot_bytes() + slots * kv.visual_slot_bytes() + kv.scale_bytes());
      CHECK(stats.kv_bytes_full == (text + kTokens) * kv.slot_bytes());
      CHECK(stats.image_count == 1);
    }
  }
}

TEST_CASE("a session decodes over a made-up image whose layers differ in bits, with small scales") {
  ocellus_limits limits = synthetic_limits(16, 1);
  test::add_option(limits.cache.kv_scheme, "scales=6");
  for (const uint8_t bits : {4, 1, 2, 8, 1, 1, 2, 2}) limits.cache.layer_bits[limits.cache.layer_bits_count++] = bits;
  limits.cache.layer_value_bits[0] = 2;
  limits.cache.layer_value_bits[2] = 8;
  const std::unique_ptr<Engine> engine = test::make_bundled_engine(limits);
  const KvShape& kv = engine->shape().kv;
  Session& session = open_session(*engine);
  ocellus_generate_stats stats = {}, again = {};
  const uint64_t hash = answer_over_image(session, &stats);
  CHECK(answer_over_image(session, &again) == hash);
  CHECK(kv.visual_slot_bytes() == kv.kv_heads * kv.head_dim * (21 + 25) / 8);
  CHECK(stats.kv_bytes == 5 * kv.slot_bytes() + kTokens * kv.visual_slot_bytes() + kv.scale_bytes());
}

TEST_CASE("a made-up image changes what is said after it") {
  const std::unique_ptr<Engine> engine = make_engine(synthetic_limits(16, 1));
  Session& session = open_session(*engine);
  ocellus_generate_stats stats = {};
  const uint64_t with_image = answer_over_image(session, &stats);
  const TokenId token = 300;
  session.reset();
  REQUIRE(session.add_tokens(&token, 1).ok());
  ocellus_generate_params params = default_params(5);
  params.ignore_end = 1;
  CHECK(answer_of(session, params).stats.logits_hash != with_image);
}

TEST_CASE("one bit takes 3,328 visual and 100 text tokens of an 8B model from 428.5 to under 40 MiB") {
  Model model;
  REQUIRE_MESSAGE(model.open_shape("InternVL2.5-8B", "F16").ok(), last_failure().sentence);
  ocellus_limits limits = test::board_limits(0, 100);
  limits.device = OCELLUS_DEVICE_CPU;
  limits.synthetic_tokens = 3328;
  for (const int32_t bits : {16, 1}) {
    limits.cache.kv_bits = bits;
    EngineShape shape;
    REQUIRE_MESSAGE(resolve_shape(model, limits, &shape).ok(), last_failure().sentence);
    const KvShape& kv = shape.kv;
    const int64_t bytes =
        kv.image_slots * kv.visual_slot_bytes() + (bits < 16 ? kv.scale_bytes() : 0) + 100 * kv.slot_bytes();
    // CalibQuant: 2 L G E n_V b / 8 for codes, 8 E L G for offsets and steps, 4 L G E n_T for text.
    const int64_t heads = 32 * 8, dim = 128;
    const int64_t codes = 2 * heads * dim * 3328 * bits / 8, text = 4 * heads * dim * 100;
    CHECK(bytes == codes + (bits < 16 ? 8 * dim * heads : 0) + text);
    CHECK(bytes <= (bits == 1 ? int64_t{40} << 20 : int64_t{429} << 20));
    ocellus_plan plan;
    REQUIRE(plan_memory(model, limits, &plan).ok());
    CHECK(plan.kv_bytes_per_session == bytes + (kPageSlots * blocks_of(100, kPageSlots) - 100) * kv.slot_bytes());
  }
}

TEST_CASE("made-up images that were not planned are refused") {
  const std::unique_ptr<Engine> engine = make_engine(synthetic_limits(2, 1));
  Session& session = open_session(*engine);
  REQUIRE(add_synthetic_image(session).ok());
  CHECK(add_synthetic_image(session).code() == Code::kFull);
  const std::unique_ptr<Engine> plain = make_engine(test::board_limits(1, 64));
  CHECK(add_synthetic_image(open_session(*plain)).code() == Code::kFull);
  ocellus_limits both = synthetic_limits(2, 1);
  both.max_images = 1;
  std::unique_ptr<Engine> none;
  ocellus_engine_config config;
  ocellus_engine_config_init(&config);
  config.limits = both;
  CHECK(Engine::create(test::bundled_model(), config, &none).code() == Code::kBadArgument);
}

}  // namespace ocellus

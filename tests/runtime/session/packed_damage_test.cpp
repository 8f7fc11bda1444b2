// Compressed caches over weights that are not numbers: nothing of it is hidden.
#include <doctest/doctest.h>

#include <limits>
#include <string_view>

#include "platform/device.h"
#include "tests/support/cache_texts.h"
#include "tests/support/packed_sessions.h"
#include "tests/support/short_talk.h"

namespace ocellus {

TEST_SUITE("compressed caches over weights that are not numbers") {
  void fill(test::GgufBuilder::Tensor & tensor, size_t first, size_t count, float value) {
    for (size_t i = first; i < first + count; ++i) test::patch(tensor.data, i * sizeof value, value);
  }

  Status talk_about(const test::GgufBuilder& text, const ocellus_cache_policy& policy, TokenId token) {
    const test::TemporaryFile text_file(text), vision_file(test::small_projector());
    Model model;
    OCELLUS_TRY(model.open(text_file.c_str(), vision_file.c_str()));
    ocellus_engine_config config;
    ocellus_engine_config_init(&config);
    config.limits = test::talk_limits(model);
    config.limits.cache = policy;
    std::unique_ptr<Engine> engine;
    OCELLUS_TRY(Engine::create(model, config, &engine));
    Session& session = test::open_session(*engine);
    OCELLUS_TRY(session.add_tokens(&token, 1));
    OCELLUS_TRY(test::add_board(session, "images/004.png"));
    OCELLUS_TRY(session.add_text("What", false));
    OCELLUS_TRY(session.end_turn());
    ocellus_generate_params params = test::default_params(4);
    params.ignore_end = 1;
    return test::answer_of(session, params).status;
  }

  TEST_CASE("what is not a number is not hidden by packing or evicting it") {
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    for (const int32_t bits : {16, 2, 1}) {
      if (bits < 16 && cuda_device_count() > 0) continue;  // the small model's heads are too narrow for a GPU
      for (const std::string_view method : {"none", "snapkv", "david"}) {
        for (const ocellus_compress_at at :
             {OCELLUS_COMPRESS_PROMPT_END, OCELLUS_COMPRESS_BEFORE_SUFFIX, OCELLUS_COMPRESS_IMAGE_END}) {
          ocellus_cache_policy policy =
              test::evicting_limits(1, 1, method, method == "none" ? 1.0f : 0.3f, bits, at).cache;
          test::add_option(policy.kv_scheme, "tau-low=0");
          CAPTURE(bits);
          CAPTURE(method);
          CAPTURE(at);
          const auto check_reported = [&](const test::GgufBuilder& text) {
            CHECK(talk_about(text, policy, 300).code() == Code::kBadFile);
            const std::string sentence = last_failure().sentence;
            CHECK_MESSAGE(sentence.find("the model's output is not a number") != std::string::npos, sentence);
          };
          test::GgufBuilder text = test::small_model();
          fill(text.tensor("token_embd.weight"), 300 * 32, 32, kNan);  // a token of the prompt
          CHECK(talk_about(text, policy, 301).ok());                   // not said
          check_reported(text);
          text = test::small_model();
          fill(text.tensor("blk.1.attn_k.weight"), 5 * 32, 32, kNan);  // a channel of the last layer's keys
          check_reported(text);
          text = test::small_model();
          fill(text.tensor("blk.1.attn_v.weight"), 5 * 32, 32, kNan);  // and of its values
          check_reported(text);
          // The largest numbers: cut off at the largest f16, and an answer.
          text = test::small_model();
          fill(text.tensor("blk.0.attn_k.weight"), 0, 512, 3e38f);
          const Status status = talk_about(text, policy, 300);
          CHECK_MESSAGE((status.ok() || status.code() == Code::kBadFile), last_failure().sentence);
        }
      }
    }
  }
}

}  // namespace ocellus

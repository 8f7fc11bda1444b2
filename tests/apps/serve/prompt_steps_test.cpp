// What a session is given before the first message of a conversation.
#include "apps/serve/prompt_steps.h"

#include <doctest/doctest.h>

#include <string>

#include "apps/serve/chat_prompt.h"
#include "apps/serve/endpoint.h"
#include "apps/serve/tool_syntax.h"
#include "tests/support/family_goldens.h"

namespace ocellus::app {
namespace {

// The tiny Gemma 4, whose chat template tells it to think in words.
struct Gemma4 {
  Gemma4() {
    const test::ModelPair pair = test::family_pair("gemma4");
    model = *Model::open(pair.model.c_str(), pair.mmproj.c_str());
    ocellus_engine_config config = engine_config();
    config.limits.device = OCELLUS_DEVICE_CPU;
    engine = *Engine::create(model, config);
    REQUIRE((session = *Session::open(engine)));
    options.params = generate_params();
    options.params.max_thought_tokens = -1;
    options.thinking = OCELLUS_THINKS_IF_TOLD;
  }

  ChatRequest read(const std::string& fields) const {
    std::string body = R"({"messages": [{"role": "user", "content": "x"}])" + fields + "}";
    ChatRequest request = parse_chat_request(&body, options.params, PromptForm(kGemma4Tools));
    UnknownFields unknown(options);
    const KeptFiles files(nullptr);
    bound_answer({model.get(), options, files, unknown}, &request);
    return request;
  }

  // The prompt's length in tokens, in a session that has read others before.
  int64_t count(const ChatRequest& request) {
    REQUIRE(session.forget_all());
    bool was_cancelled = false;
    add_steps(&session, model.get(), list_steps(request, 0), &was_cancelled);
    ocellus_generate_params params = generate_params();
    params.max_tokens = 1;
    ocellus_generate_stats stats = {};
    REQUIRE(session.generate(params, nullptr, &stats));
    return stats.prompt_tokens;
  }

  Model model;
  Engine engine;
  Session session;
  ServeOptions options;
};

}  // namespace

TEST_SUITE("http prompt steps") {
  TEST_CASE("a bound of thoughts, or a template's option, tells a model to think") {
    Gemma4 gemma;
    const ChatRequest silent = gemma.read("");
    const int64_t usual = gemma.count(silent);
    Beginning begun;
    begun.set("", list_steps(silent, 0));
    for (const char* told :
         {R"(, "thinking_token_budget": 9)", R"(, "thinking_token_budget": -1)", R"(, "enable_thinking": true)",
          R"(, "chat_template_kwargs": {"enable_thinking": true})", R"(, "thinking": {"type": "enabled"})"}) {
      CAPTURE(told);
      const ChatRequest request = gemma.read(told);
      CHECK(request.params.max_thought_tokens > 0);
      CHECK(gemma.count(request) > usual);
      CHECK_FALSE(begun.begins("", list_steps(request, 0)));  // it is another prompt from its first token on
      CHECK(gemma.count(silent) == usual);
    }
    for (const char* untold : {R"(, "thinking_token_budget": 0)", R"(, "enable_thinking": false)",
                               R"(, "enable_thinking": true, "thinking_token_budget": 0)",
                               R"(, "thinking": {"type": "adaptive"})", R"(, "reasoning_effort": "none")"}) {
      CAPTURE(untold);
      CHECK(gemma.count(gemma.read(untold)) == usual);
    }
  }
}

}  // namespace ocellus::app

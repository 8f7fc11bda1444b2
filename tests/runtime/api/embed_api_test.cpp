// The C API of tokens' texts and of embeddings.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "runtime/ocellus.h"
#include "tests/support/bundled_model.h"

namespace {

struct Handles {
  Handles() {
    const auto pair = ocellus::test::bundled_pair();
    REQUIRE(ocellus_model_open(pair.model.c_str(), pair.mmproj.c_str(), &model) == OCELLUS_OK);
    ocellus_engine_config config;
    ocellus_engine_config_init(&config);
    config.limits.max_text_tokens = 64;
    REQUIRE(ocellus_engine_create(model, &config, &engine) == OCELLUS_OK);
    REQUIRE(ocellus_session_open(engine, &session) == OCELLUS_OK);
  }
  ~Handles() {
    ocellus_engine_destroy(engine);
    ocellus_model_close(model);
  }
  Handles(const Handles&) = delete;
  Handles& operator=(const Handles&) = delete;

  ocellus_model* model = nullptr;
  ocellus_engine* engine = nullptr;
  ocellus_session* session = nullptr;
};

bool last_sentence_has(const char* words) {
  return std::string(ocellus_last_error()->sentence).find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("the texts of an answer's tokens add up to it, and only special tokens have to be asked for") {
  const Handles handles;
  const std::string answer = "Blue.";
  int32_t tokens[8], count = 0;
  REQUIRE(ocellus_model_tokenize(handles.model, answer.data(), 5, OCELLUS_TEXT_ANSWER, tokens, 8, &count) ==
          OCELLUS_OK);
  std::string plain, special;
  for (int32_t i = 0; i < count; ++i) {
    char text[64];
    int32_t bytes = 0;
    REQUIRE(ocellus_model_token_text(handles.model, tokens[i], 0, text, sizeof text, &bytes) == OCELLUS_OK);
    plain.append(text, static_cast<size_t>(bytes));
    REQUIRE(ocellus_model_token_text(handles.model, tokens[i], OCELLUS_TEXT_PARSE_SPECIAL, text, sizeof text, &bytes) ==
            OCELLUS_OK);
    special.append(text, static_cast<size_t>(bytes));
  }
  CHECK(plain == " Blue.");
  CHECK(special.substr(0, plain.size()) == plain);
  CHECK(special.size() > plain.size());
}

TEST_CASE("a token's text that does not fit is cut, and its length told") {
  const Handles handles;
  int32_t token = 0, count = 0, bytes = 0;
  REQUIRE(ocellus_model_tokenize(handles.model, " large", 6, 0, &token, 1, &count) == OCELLUS_OK);
  REQUIRE(count == 1);
  char text[8] = "-------";
  REQUIRE(ocellus_model_token_text(handles.model, token, 0, text, 3, &bytes) == OCELLUS_OK);
  CHECK(bytes == 6);
  CHECK(std::string(text) == " la----");
  REQUIRE(ocellus_model_token_text(handles.model, token, 0, nullptr, 0, &bytes) == OCELLUS_OK);
  CHECK(bytes == 6);
}

TEST_CASE("embeddings and tokens refuse arguments that cannot be, and lose nothing") {
  const Handles handles;
  ocellus_session* const s = handles.session;
  char text[4];
  float values[4] = {};
  int32_t count = 0;
  int64_t total = -1;
  CHECK(ocellus_model_token_text(nullptr, 1, 0, text, 4, &count) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_model_token_text(handles.model, 1, 0, text, 4, nullptr) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_model_token_text(handles.model, 1, 0, nullptr, 4, &count) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_model_token_text(handles.model, 1, 0, text, -1, &count) == OCELLUS_BAD_ARGUMENT);
  for (const int32_t token : {-1, 1 << 30})
    CHECK(ocellus_model_token_text(handles.model, token, 0, text, 4, &count) == OCELLUS_BAD_ARGUMENT);
  CHECK(last_sentence_has("there is no token"));
  CHECK(ocellus_session_embed(nullptr, values, 4, &count) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_session_embed(s, values, 4, nullptr) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_session_embed_image(s, nullptr, 1, values, 4, &count) == OCELLUS_BAD_ARGUMENT);
  CHECK(ocellus_session_embed_image(s, text, 1, values, 4, &count) == OCELLUS_BAD_IMAGE);
  CHECK(ocellus_session_count_tokens(s, nullptr) == OCELLUS_BAD_ARGUMENT);
  REQUIRE(ocellus_session_add_text(s, "A large green star", 18, 0) == OCELLUS_OK);
  CHECK(ocellus_session_embed(s, values, 4, &count) == OCELLUS_BAD_ARGUMENT);
  CHECK(last_sentence_has("room for 4"));
  std::vector<float> enough(static_cast<size_t>(count));
  CHECK(ocellus_session_embed(s, enough.data(), count, &count) == OCELLUS_OK);
  REQUIRE(ocellus_session_count_tokens(s, &total) == OCELLUS_OK);
  CHECK(total == 4);
  CHECK(ocellus_session_generate(s, nullptr, nullptr) == OCELLUS_BAD_ARGUMENT);
}

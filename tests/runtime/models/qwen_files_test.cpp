// Files of Qwen's vision families: old ones, which name some things otherwise, and ones that lie.
#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/support/failure.h"
#include "tests/support/random_model.h"
#include "tests/support/small_pair.h"
#include "tests/support/text_sessions.h"
#include "tests/support/tiny_families.h"

namespace ocellus {
namespace {

using test::GgufBuilder;
using test::TemporaryFile;

/// The mmproj file of a tiny family, ready to be changed.
GgufBuilder projector_of(const std::string& name) {
  GgufFile file;
  REQUIRE(file.open(test::family_pair(name).mmproj.c_str()).ok());
  return GgufBuilder(file);
}

std::string text_of(const std::string& name) { return test::family_pair(name).model; }

void rename(GgufBuilder& file, const std::string& from, const std::string& to) { file.tensor(from).name = to; }

/// Logits after a prompt with two pictures.
std::vector<float> logits_of(const std::string& name, const GgufBuilder& projector) {
  const TemporaryFile file(projector);
  Model model;
  REQUIRE_MESSAGE(model.open(text_of(name).c_str(), file.c_str()).ok(), last_failure().sentence);
  const std::unique_ptr<Engine> engine = test::make_engine(model, test::family_limits());
  Session& session = test::open_session(*engine);
  test::add_two_pictures(session);
  return test::first_logits(session);
}

/// As old converters named the MLP's maps: what reads the tower's rows is `down`.
void swap_mlp_names(GgufBuilder& file) {
  for (const std::string layer : {"v.blk.0.", "v.blk.1."}) {
    for (const std::string part : {".weight", ".bias"}) {
      rename(file, layer + "ffn_up" + part, layer + "other");
      rename(file, layer + "ffn_down" + part, layer + "ffn_up" + part);
      rename(file, layer + "other", layer + "ffn_down" + part);
    }
  }
}

void check_refused(const std::string& family, const GgufBuilder& projector, const std::string& says) {
  CAPTURE(says);
  const TemporaryFile file(projector);
  Model model;
  test::clear_failure();
  CHECK(model.open(text_of(family).c_str(), file.c_str()).code() == Code::kBadFile);
  const std::string sentence = last_failure().sentence;
  CAPTURE(sentence);
  CHECK(sentence.find(says) != std::string::npos);
}

}  // namespace

TEST_CASE("old files of Qwen's towers are read as those of today") {
  const std::vector<float> qwen2 = logits_of("qwen2-vl", projector_of("qwen2-vl"));
  SUBCASE("the width of Qwen2-VL's MLP is the language model's, or 0") {
    for (const uint32_t width : {0u, 64u}) {
      GgufBuilder file = projector_of("qwen2-vl");
      test::set_count(file, "clip.vision.feed_forward_length", width);
      CHECK(logits_of("qwen2-vl", file) == qwen2);
    }
  }
  SUBCASE("the names of the MLP's maps are swapped") {
    GgufBuilder file = projector_of("qwen2-vl");
    swap_mlp_names(file);
    CHECK(logits_of("qwen2-vl", file) == qwen2);
  }
  SUBCASE("Qwen2.5-VL has Qwen2-VL's projector type, no activation, and neither pattern nor window") {
    GgufBuilder file = projector_of("qwen2.5-vl");
    test::set_count(file, "clip.vision.n_wa_pattern", 8);  // what is taken if a file does not say, as is the window
    test::set_count(file, "clip.vision.window_size", 112);
    const std::vector<float> expected = logits_of("qwen2.5-vl", file);
    test::without(file, "clip.projector_type").add_string("clip.projector_type", "qwen2vl_merger");
    for (const char* const key :
         {"clip.use_silu", "clip.vision.n_wa_pattern", "clip.vision.window_size", "clip.vision.spatial_merge_size"})
      file.remove(key);
    CHECK(logits_of("qwen2.5-vl", file) == expected);
  }
}

TEST_CASE("Qwen files that lie are refused with the key or tensor at fault") {
  SUBCASE("windows") {
    for (const auto& [key, value] : {std::pair{"clip.vision.window_size", 13u},
                                     {"clip.vision.window_size", 0u},
                                     {"clip.vision.n_wa_pattern", 0u}}) {
      GgufBuilder file = projector_of("qwen2.5-vl");
      test::set_count(file, key, value);
      check_refused("qwen2.5-vl", file, key);
    }
  }
  SUBCASE("a table of positions that is no square") {
    GgufBuilder file = projector_of("qwen3-vl");
    GgufBuilder::Tensor& table = file.tensor("v.position_embd.weight");
    table.data.resize(table.data.size() / table.ne[1] * (table.ne[1] - 1));
    --table.ne[1];
    check_refused("qwen3-vl", file, "'v.position_embd.weight' has 63 rows, which form no square");
  }
  SUBCASE("layers whose rows join the language model's: one less than it takes, one without its second map") {
    GgufBuilder file = projector_of("qwen3-vl");
    file.remove_tensor("v.deepstack.2.fc1.weight");
    check_refused("qwen3-vl", file,
                  "1 layers have tensors 'v.deepstack.*', but the language model takes the rows of 2");
    GgufBuilder other = projector_of("qwen3-vl");
    other.remove_tensor("v.deepstack.2.fc2.weight");
    check_refused("qwen3-vl", other, "'v.deepstack.2.fc2.weight' is missing");
  }
  SUBCASE("fewer pixels than a row") {
    GgufBuilder file = projector_of("qwen3-vl");
    test::set_count(file, "clip.vision.image_max_pixels", 255);
    check_refused("qwen3-vl", file, "clip.vision.image_max_pixels is 255, less than the 256 of one row");
  }
  SUBCASE("a language model whose positions are one number") {
    Model model;
    const std::string mmproj = test::family_pair("qwen2-vl").mmproj;
    CHECK(model.open(test::TemporaryModel(test::TextRecipe{.architecture = "llama"}, 1).path().c_str(), mmproj.c_str())
              .code() == Code::kBadFile);
  }
}

TEST_CASE("a bound of a picture's rows is for models that take any size") {
  ocellus_limits limits = test::family_limits();
  limits.max_image_rows = 16;
  ocellus_plan plan;
  CHECK(plan_memory(*test::open_tiny_family("smolvlm"), limits, &plan).code() == Code::kBadArgument);
  CHECK(std::string(last_failure().sentence).find("plan no bound of a picture's rows") != std::string::npos);
  CHECK(plan_memory(*test::open_tiny_family("qwen3-vl"), limits, &plan).ok());
  CHECK(plan.rows_per_image == 16);
  limits.max_image_rows = -1;
  CHECK(plan_memory(*test::open_tiny_family("qwen3-vl"), limits, &plan).code() == Code::kBadArgument);
}

TEST_CASE("a conversation without a system prompt gets the one that Qwen2-VL's template has") {
  const test::ModelPair pair = test::family_pair("qwen2-vl");
  GgufFile file;
  REQUIRE(file.open(pair.model.c_str()).ok());
  GgufBuilder changed(file);
  test::without(changed, "tokenizer.chat_template")
      .add_string("tokenizer.chat_template",
                  "{% for message in messages %}{% if loop.first and message['role'] != 'system' %}<|im_start|>system\n"
                  "You are a helpful assistant.<|im_end|>\n{% endif %}<|im_start|>{{ message['role'] }}\n{% endfor %}");
  const TemporaryFile text(changed);
  std::vector<int32_t> ids[3];
  int32_t tokens[2] = {};
  for (int way = 0; way < 3;
       ++way) {  // the old template and that prompt, the new one and no prompt, and another prompt
    Model model;
    REQUIRE(model.open(way == 0 ? pair.model.c_str() : text.c_str(), nullptr).ok());
    const std::unique_ptr<Engine> engine = test::make_engine(model, test::board_limits(0, 100));
    Session& session = test::open_session(*engine);
    if (way != 1) REQUIRE(session.add_system(way == 0 ? "You are a helpful assistant." : "Be short.").ok());
    REQUIRE(session.begin_turn().ok());
    REQUIRE(session.add_text("Hello.", false).ok());
    REQUIRE(session.end_turn().ok());
    const PromptChunk& chunk = engine->memory().chunk;
    ids[way].assign(chunk.token_ids.host.data, chunk.token_ids.host.data + chunk.row_count);
  }
  CHECK(ids[0] == ids[1]);
  CHECK(ids[2] != ids[1]);
  for (int way = 0; way < 2; ++way) {
    ocellus_model* model = nullptr;
    REQUIRE(ocellus_model_open(way == 0 ? pair.model.c_str() : text.c_str(), nullptr, &model) == OCELLUS_OK);
    CHECK(ocellus_model_template_tokens(model, &tokens[way]) == OCELLUS_OK);
    ocellus_model_close(model);
  }
  CHECK(tokens[1] > tokens[0]);
}

TEST_CASE("the rows of a picture are counted before there is an engine") {
  const test::ModelPair pair = test::family_pair("qwen3-vl");
  ocellus_model* model = nullptr;
  REQUIRE(ocellus_model_open(pair.model.c_str(), pair.mmproj.c_str(), &model) == OCELLUS_OK);
  ocellus_limits limits;
  ocellus_limits_init(&limits);
  int32_t rows = 0;
  CHECK(ocellus_model_count_image_rows(model, &limits, 96, 64, &rows) == OCELLUS_OK);  // rows of 16 x 16 pixels
  CHECK(rows == 6 * 4);
  limits.max_image_rows = 12;
  CHECK(ocellus_model_count_image_rows(model, &limits, 96, 64, &rows) == OCELLUS_OK);
  CHECK(rows <= 12);
  CHECK(rows > 6);
  CHECK(ocellus_model_count_image_rows(model, &limits, 0, 64, &rows) == OCELLUS_BAD_IMAGE);
  CHECK(ocellus_model_count_image_rows(model, &limits, 9000, 10, &rows) == OCELLUS_BAD_IMAGE);
  CHECK(ocellus_model_count_image_rows(model, nullptr, 1, 1, &rows) == OCELLUS_BAD_ARGUMENT);
  limits.max_image_rows = -1;
  CHECK(ocellus_model_count_image_rows(model, &limits, 96, 64, &rows) == OCELLUS_BAD_ARGUMENT);
  limits.max_image_rows = 0;
  limits.planned_image_rows = -1;
  CHECK(ocellus_model_count_image_rows(model, &limits, 96, 64, &rows) == OCELLUS_BAD_ARGUMENT);
  ocellus_model_close(model);
}

}  // namespace ocellus

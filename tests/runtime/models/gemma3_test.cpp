// Gemma 3: layers that see the newest positions only, with a rotation of their own, and norms of branches.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "runtime/branches/measure/score.h"
#include "runtime/engine/memory_plan.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/text_cases.h"

namespace ocellus {
namespace {

using namespace test;

TextRecipe windowed_recipe() {
  return {.architecture = "gemma3", .layers = 3, .kv_heads = 2, .tied = true, .window = 20, .window_period = 2};
}

double log_probability(const Matrix& logits, int64_t row, TokenId token) {
  const double* const values = logits.row(row);
  const double largest = *std::max_element(values, values + logits.cols);
  double sum = 0;
  for (int64_t i = 0; i < logits.cols; ++i) sum += std::exp(values[i] - largest);
  return values[token] - largest - std::log(sum);
}

/// A good windowed file after `change`.
template <class Change>
void check_refused(Change change, Code code, const std::string& words) {
  const test::TemporaryModel good(windowed_recipe(), kSeed);
  GgufFile gguf;
  REQUIRE(gguf.open(good.path().c_str()).ok());
  test::GgufBuilder file(gguf);
  change(file);
  const test::TemporaryFile changed(file);
  Model model;
  CHECK(model.open(changed.path().c_str(), nullptr).code() == code);
  CHECK_MESSAGE(std::string(last_failure().sentence).find(words) != std::string::npos, last_failure().sentence);
}

}  // namespace

TEST_CASE("gemma3: windows, two rotations, norms of branches") {
  const TextRecipe plain = {.architecture = "gemma3", .layers = 3, .kv_heads = 2, .tied = true};
  const auto with = [&](int window, int period) {
    TextRecipe recipe = plain;
    recipe.window = window;
    recipe.window_period = period;
    return recipe;
  };
  TextRecipe scaled = with(8, 3);
  scaled.rope_base = 1e6f;
  scaled.linear_factor = 8;
  scaled.local_rope_base = 500;
  TextRecipe wide = with(24, 2);
  wide.query_heads = 4;
  wide.kv_heads = 1;
  wide.head_dim = 256;
  TextRecipe six = with(9, 0);
  six.layers = 7;
  TextRecipe half = with(16, 2);
  half.format = WeightFormat::kF16;
  half.tied = false;
  const Case cases[] = {
      {"no window", plain},
      {"a window longer than the text", with(64, 2)},
      {"windows of 8", with(8, 2)},
      {"two ropes", scaled},
      {"every sixth layer sees all", six},
      {"all layers see all", with(8, 1)},
      {"heads of 256, one key head", wide},
      {"F16, own output", half},
      {"windows of 1", with(1, 2)},
      {"windows of 2, chunks of 1 row", with(2, 2), 1},
      {"windows of 5, chunks of 7 rows", with(5, 3), 7},
      {"windows of 17, chunks of 13 rows", with(17, 2), 13},
      {"windows of 16, chunks of 16 rows", with(16, 3), 16, 80},
      {"windows of 33, chunks of 5 rows", with(33, 2), 5, 103},
      {"windows of 65, chunks of 31 rows", with(65, 2), 31, 217},
      {"windows of 70, blocks of 128 rows", with(70, 2), 0, 301},
      {"windows of 200, a block and a row", with(200, 2), 129, 301},
  };
  for (const Case& c : cases) compare(c, kFloatBounds);
  compare({"Q8_0",
           {.architecture = "gemma3",
            .width = 256,
            .mlp_width = 512,
            .query_heads = 4,
            .kv_heads = 2,
            .head_dim = 64,
            .format = WeightFormat::kQ8_0,
            .tied = true,
            .window = 20,
            .window_period = 2},
           11},
          kBlockBounds);
}

TEST_CASE("gemma3: prompts and answers by turns see the same windows") {
  const Loaded loaded({"by turns", windowed_recipe(), 37, 300});
  const std::vector<TokenId> all = random_tokens(250);
  const ReferenceText reference(loaded.model.text_file());
  const Matrix expected = reference.logits(reference.read(reference.embed(all)));
  loaded.session->reset();
  int64_t at = 0;
  bool answers = false;
  for (const int64_t length : {3, 2, 61, 30, 1, 40, 5, 70, 38}) {  // a prompt, an answer, a prompt ...
    std::vector<float> values(static_cast<size_t>(length));
    if (answers) {
      ocellus_generate_stats stats;
      const ForcedAnswer forced = {all.data() + at, static_cast<int32_t>(length), values.data()};
      REQUIRE_MESSAGE(score(*loaded.session, forced, &stats).ok(), last_failure().sentence);
    } else {
      REQUIRE_MESSAGE(loaded.session->add_tokens(all.data() + at, length).ok(), last_failure().sentence);
    }
    for (int64_t i = 0; answers && i < length; ++i) {
      const double wanted = log_probability(expected, at + i - 1, all[static_cast<size_t>(at + i)]);
      const double bound = loaded.engine->queue().on_cuda() ? 0.1 : 5e-3;
      CHECK(std::abs(static_cast<double>(values[static_cast<size_t>(i)]) - wanted) < bound);
    }
    at += length;
    answers = !answers;
  }
}

TEST_CASE("gemma3: sessions of a batch see their own windows") {
  const test::TemporaryModel file(windowed_recipe(), kSeed);
  Model model;
  REQUIRE(model.open(file.path().c_str(), nullptr).ok());
  ocellus_limits limits = test::board_limits(0, 220);
  limits.max_sessions = 3;
  const auto engine = test::make_engine(model, limits);
  std::vector<Session*> sessions;
  for (int i = 0; i < 3; ++i) sessions.push_back(&test::open_session(*engine));
  const auto prepare = [&](size_t i) {
    const std::vector<TokenId> prompt = random_tokens(std::array{7, 90, 150}[i], i);
    sessions[i]->reset();
    REQUIRE(sessions[i]->add_tokens(prompt.data(), std::ssize(prompt)).ok());
  };
  ocellus_generate_params params = test::default_params(50);
  params.ignore_end = 1;
  for (size_t i = 0; i < 3; ++i) prepare(i);
  const std::vector<test::Answer> together = test::batch_answers(sessions, params);
  for (size_t i = 0; i < 3; ++i) {
    prepare(i);
    const test::Answer alone = test::answer_of(*sessions[i], params);
    REQUIRE(alone.status.ok());
    CHECK(alone.stats.generated_tokens == 50);
    CHECK(alone.text == together[i].text);
    if (!engine->queue().on_cuda()) CHECK(alone.stats.logits_hash == together[i].stats.logits_hash);
  }
}

TEST_CASE("gemma3 files that this build cannot run are refused") {
  using test::GgufBuilder;
  for (const std::string name : {"blk.0.post_attention_norm.weight", "blk.1.post_ffw_norm.weight"}) {
    check_refused([&](GgufBuilder& file) { file.remove_tensor(name); }, Code::kBadFile, name);
    const auto shorten = [&](GgufBuilder& file) {
      file.remove_tensor(name);
      file.add_tensor(name, WeightFormat::kF32, {8});
    };
    check_refused(shorten, Code::kBadFile, name);
  }
  const std::string cap = "attn_logit_softcapping";
  check_refused([&](GgufBuilder& file) { file.add_f32("gemma3." + cap, 30); }, Code::kUnsupported, cap);
  check_refused([](GgufBuilder& file) { file.add_f32("gemma3.final_logit_softcapping", -1); }, Code::kBadFile,
                "final_logit_softcapping");
  check_refused([](GgufBuilder& file) { file.add_f32("gemma3.rope.freq_base_swa", -1); }, Code::kBadFile, "base_swa");
  const std::string pattern = "gemma3.attention.sliding_window_pattern";
  const auto with_pattern = [&](uint32_t period) {
    return [&pattern, period](GgufBuilder& file) {
      file.remove(pattern);
      file.add_u32(pattern, period);
    };
  };
  check_refused(with_pattern(0), Code::kBadFile, "pattern is 0");
  check_refused(with_pattern(100000), Code::kBadFile, "pattern");
  check_refused(
      [](GgufBuilder& file) {
        file.remove("gemma3.attention.sliding_window");
        file.add_f32("gemma3.attention.sliding_window", 8);
      },
      Code::kBadFile, "sliding_window");
  check_refused(
      [](GgufBuilder& file) {
        file.remove("gemma3.attention.sliding_window");
        file.add_u32("gemma3.attention.sliding_window", 0);
      },
      Code::kBadFile, "sliding_window is 0");
  const test::TemporaryModel large(TextRecipe{.architecture = "gemma3", .layers = 62, .window = 8}, kSeed);
  Model model;
  CHECK(model.open(large.path().c_str(), nullptr).code() == Code::kUnsupported);
  CHECK(std::string(last_failure().sentence).find("62 layers") != std::string::npos);
}

TEST_CASE("gemma3: a window by layer must be a regular pattern") {
  const test::TemporaryModel good(windowed_recipe(), kSeed);
  GgufFile gguf;
  REQUIRE(gguf.open(good.path().c_str()).ok());
  const auto open = [&](const std::vector<bool>& windows, Model* model) {
    test::GgufBuilder file(gguf);
    file.remove("gemma3.attention.sliding_window_pattern");
    file.add_bool_array("gemma3.attention.sliding_window_pattern", windows);
    const test::TemporaryFile changed(file);
    return model->open(changed.path().c_str(), nullptr).code();
  };
  Model alternating, none, irregular, short_list;
  CHECK(open({true, false, true}, &alternating) == Code::kOk);
  CHECK(alternating.text().local.period == 2);
  CHECK(open({true, true, true}, &none) == Code::kOk);
  for (int32_t layer = 0; layer < 3; ++layer) CHECK(none.text().local.has(layer));
  CHECK(open({false, true, false}, &irregular) == Code::kUnsupported);
  CHECK(open({true, false}, &short_list) == Code::kBadFile);
}

TEST_CASE("gemma3: a prompt that is not read to its end leaves what the layers with a window saw") {
  const Loaded loaded({"stopped", windowed_recipe(), 37, 300});
  Session& session = *loaded.session;
  const std::vector<TokenId> begin = random_tokens(90), dropped = random_tokens(150, 2), end = random_tokens(30, 3);
  const auto talk = [&](int64_t stopped_rows) {
    session.reset();
    REQUIRE(session.add_tokens(begin.data(), std::ssize(begin)).ok());
    ocellus_generate_params params = test::default_params(5);
    params.ignore_end = 1;
    REQUIRE(test::answer_of(session, params).status.ok());
    const int64_t position = session.next_position();
    if (stopped_rows > 0) {
      REQUIRE(session.add_tokens(dropped.data(), stopped_rows).ok());
      session.stop_signal().cancel();
      CHECK(test::answer_of(session, params).status.code() == Code::kCancelled);
      // A chunk that was read took other slots than the window's; the second one took those.
      CHECK(session.next_position() == (stopped_rows <= 74 ? position : 0));
      if (stopped_rows > 74) return std::vector<float>();
    }
    REQUIRE(session.add_tokens(end.data(), std::ssize(end)).ok());
    return test::first_logits(session);
  };
  const std::vector<float> expected = talk(0);
  CHECK(talk(20) == expected);
  CHECK(talk(60) == expected);  // of two chunks of 37, one is read before it stops
  CHECK(talk(150).empty());
}

TEST_CASE("gemma3: linked images that only the last token sees are refused") {
  Model model;
  REQUIRE(model.open_shape("Gemma3-4B", "Q4_0").ok());
  ocellus_limits limits = test::board_limits(1, 64);
  limits.reuse = OCELLUS_REUSE_FULL;
  ocellus_plan plan;
  CHECK(plan_memory(model, limits, &plan).code() == Code::kUnsupported);
  CHECK_MESSAGE(std::string(last_failure().sentence).find("newest 1024") != std::string::npos, last_failure().sentence);
}

TEST_CASE("gemma3: a conversation takes memory in the layers that see all positions only") {
  const test::TemporaryModel file(windowed_recipe(), kSeed);
  Model model;
  REQUIRE(model.open(file.path().c_str(), nullptr).ok());
  const auto planned = [&](int32_t text_tokens) {
    ocellus_limits limits = test::board_limits(0, text_tokens);
    limits.max_prompt_rows = 64;
    ocellus_plan plan;
    REQUIRE_MESSAGE(plan_memory(model, limits, &plan).ok(), last_failure().sentence);
    return plan;
  };
  const ocellus_plan some = planned(640), more = planned(1280);
  CHECK(some.kv_bytes_per_token == 1 * model.text().kv_width(0) * 4);  // one of three layers
  CHECK(more.kv_bytes_per_session - some.kv_bytes_per_session < 641 * (some.kv_bytes_per_token + 8));
}

}  // namespace ocellus

// Every choice a language model file may make, on small random models, against the double-precision reference.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/sampling/sample.h"
#include "quant/block_codes.h"
#include "tests/support/cache_texts.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/loaded_engine.h"
#include "tests/support/random.h"
#include "tests/support/random_model.h"
#include "tests/support/reference_model.h"
#include "tests/support/text_cases.h"

namespace ocellus {
namespace {

using namespace test;

TextRecipe wide_recipe(WeightFormat format) {
  return {.width = 256, .mlp_width = 512, .query_heads = 4, .kv_heads = 2, .head_dim = 64, .format = format};
}

/// Some of many short prompts have no value near a middle. The two must then agree up to float arithmetic.
constexpr double kExactBound = 3e-5;
constexpr double kPartsBound = 1.5e-4;      // inputs of half formats are two bf16
constexpr double kCudaExactBound = 2.5e-2;  // a prompt's inputs of block formats are not rounded to 127 steps there
constexpr uint64_t kShortPrompts = 12;

/// The best of several short prompts.
void compare_exactly(const std::string& name, const TextRecipe& recipe) {
  constexpr int64_t kRows = 9;  // matrices are read in panels from 8 rows on, row by row below and in decoding
  CAPTURE(name);
  const Loaded loaded({.name = name, .recipe = recipe, .prompt_rows = kRows});
  const ReferenceText reference(loaded.model.text_file());
  Errors best{1, 1, 1};
  for (uint64_t seed = 0; seed < kShortPrompts; ++seed) {
    const Run got = run(loaded, random_tokens(kRows, seed), 1);
    const Matrix expected = reference.logits(reference.read(reference.embed(got.tokens)));
    const auto error = [&](int64_t t) {
      const float* logits = got.logits[static_cast<size_t>(t - kRows + 1)].data();
      return test::relative_error(logits, expected.row(t), expected.cols);
    };
    best.first = std::min(best.first, error(kRows - 1));
    best.decode = std::min(best.decode, error(kRows));
  }
  const Queue& queue = loaded.engine->queue();
  const double of_tiles = tile_error(queue, recipe);
  const double bound = queue.on_cuda() || of_tiles == kBlockTileError ? kCudaExactBound
                       : of_tiles > 0                                 ? kPartsBound
                                                                      : kExactBound;
  CHECK(best.first < bound);
  CHECK(best.decode < bound);
}

}  // namespace

TEST_CASE("every architecture with every option of its own") {
  const Case cases[] = {
      {"llama", {}},
      {"internlm2", {.architecture = "internlm2"}},
      {"qwen2", {.architecture = "qwen2"}},
      {"qwen3", {.architecture = "qwen3"}},
      {"qwen3, tied, heads wider than the model",
       {.architecture = "qwen3", .width = 64, .query_heads = 4, .kv_heads = 2, .head_dim = 40, .tied = true}},
      {"qwen3, one wide head", {.architecture = "qwen3", .query_heads = 1, .kv_heads = 1, .head_dim = 256}},
      {"qwen3, heads narrower than the model, fused qkv with biases",
       {.architecture = "qwen3", .query_heads = 3, .kv_heads = 1, .head_dim = 8, .biases = true, .fused_qkv = true}},
      {"qwen3, F16, eight query heads per key head",
       {.architecture = "qwen3", .query_heads = 8, .kv_heads = 1, .head_dim = 16, .format = WeightFormat::kF16}},
      {"qwen3vl", {.architecture = "qwen3vl", .kv_heads = 2, .head_dim = 32, .rope_base = 5000000}},
      {"cosmos3-edge", {.architecture = "cosmos3-edge", .kv_heads = 2, .head_dim = 32, .rope_base = 1e8f}},
      {"paddleocr, all biases",
       {.architecture = "paddleocr", .kv_heads = 2, .head_dim = 32, .biases = true, .more_biases = true}},
      {"cosmos3-edge, biases of the MLP", {.architecture = "cosmos3-edge", .more_biases = true}},
      {"llama, tied output", {.tied = true}},
      {"llama, q, k, v biases", {.biases = true}},
      {"qwen2, all biases", {.architecture = "qwen2", .biases = true, .more_biases = true}},
      {"llama, fused qkv", {.kv_heads = 2, .fused_qkv = true}},
      {"qwen2, fused qkv with biases, tied",
       {.architecture = "qwen2", .kv_heads = 1, .tied = true, .biases = true, .fused_qkv = true}},
      {"llama, two query heads per key head", {.kv_heads = 2}},
      {"qwen2, four query heads per key head", {.architecture = "qwen2", .kv_heads = 1}},
      {"llama, narrow: width 40, heads of 8",
       {.width = 40, .mlp_width = 56, .query_heads = 5, .kv_heads = 1, .head_dim = 8}},
      {"llama, heads of 128", {.width = 256, .mlp_width = 136, .query_heads = 2, .kv_heads = 1, .head_dim = 128}},
      {"llama, heads wider than the model", {.width = 64, .query_heads = 4, .kv_heads = 2, .head_dim = 24}},
      {"qwen2, heads narrower than the model",
       {.architecture = "qwen2", .width = 96, .query_heads = 4, .kv_heads = 2, .head_dim = 16, .biases = true}},
      {"llama, half of a head rotated", {.rotated = 8}},
      {"qwen2, six channels of a head rotated", {.architecture = "qwen2", .rotated = 6}},
      {"llama, another base", {.rope_base = 500000}},
      {"qwen2, another base", {.architecture = "qwen2", .rope_base = 300}},
      {"llama, linear scaling", {.linear_factor = 2.5f}},
      {"internlm2, linear scaling", {.architecture = "internlm2", .linear_factor = 2.0f}},
      {"qwen2, linear scaling that is not named",
       {.architecture = "qwen2", .linear_factor = 4, .names_scaling = false}},
      {"llama, frequency factors", {.rope_factors = true}},
      {"qwen2, frequency factors and fewer rotated channels",
       {.architecture = "qwen2", .rotated = 12, .rope_factors = true}},
      {"llama, three layers", {.layers = 3, .kv_heads = 2}},
      {"llama, F16", {.format = WeightFormat::kF16}},
      {"qwen2, BF16", {.architecture = "qwen2", .format = WeightFormat::kBF16, .biases = true}},
      {"llama, F16, narrow and odd",
       {.width = 40, .mlp_width = 52, .query_heads = 5, .kv_heads = 5, .head_dim = 8, .format = WeightFormat::kF16}},
  };
  for (const Case& c : cases) compare(c, kFloatBounds);
}

TEST_CASE("the reference tells the options apart") {
  // Else the case above would pass whatever the runtime made of an option.
  const std::vector<TokenId> tokens = random_tokens(kPromptRows);
  const auto read = [&](const TextRecipe& recipe) {
    const test::TemporaryModel file(recipe, kSeed);
    GgufFile gguf;
    REQUIRE(gguf.open(file.path().c_str()).ok());
    const ReferenceText reference(gguf);
    return reference.read(reference.embed(tokens));
  };
  const Matrix plain = read({});
  const TextRecipe others[] = {{.architecture = "qwen2"}, {.architecture = "qwen3"}, {.rotated = 8},
                               {.rope_base = 500000},     {.linear_factor = 2.5f},   {.rope_factors = true}};
  const auto check_apart = [&](const Matrix& other, const Matrix& from) {
    const std::vector<float> values(other.values.begin(), other.values.end());
    CHECK(test::relative_error(values.data(), from.row(0), from.rows * from.cols) > 0.05);
  };
  for (const TextRecipe& recipe : others) check_apart(read(recipe), plain);
  const auto gemma = [&](int window, int period, float local_base) {
    return read({.architecture = "gemma3", .window = window, .window_period = period, .local_rope_base = local_base});
  };
  const Matrix windows = gemma(8, 2, 0);
  check_apart(gemma(0, 0, 0), windows);
  check_apart(gemma(9, 2, 0), windows);
  check_apart(gemma(8, 3, 0), windows);
  check_apart(gemma(8, 2, 100), windows);
}

TEST_CASE("internlm2 is llama under another name") {
  const std::vector<TokenId> prompt = random_tokens(kPromptRows);
  const Loaded llama({"llama", {.kv_heads = 2}});
  const Loaded internlm2({"internlm2", {.architecture = "internlm2", .kv_heads = 2}});
  CHECK(run(llama, prompt, kDecodeSteps).logits == run(internlm2, prompt, kDecodeSteps).logits);
}

TEST_CASE("internlm2 without an output matrix is refused") {
  const test::TemporaryModel file(TextRecipe{.architecture = "internlm2", .tied = true}, kSeed);
  Model model;
  CHECK(model.open(file.path().c_str(), nullptr).code() == Code::kBadFile);
  CHECK(std::string(last_failure().sentence).find("tensor 'output.weight' is missing") != std::string::npos);
}

TEST_CASE("qwen3 without the norms of its heads, or with norms of another length, is refused") {
  const test::TemporaryModel good(TextRecipe{.architecture = "qwen3"}, kSeed);
  GgufFile gguf;
  REQUIRE(gguf.open(good.path().c_str()).ok());
  for (const std::string name : {"blk.0.attn_q_norm.weight", "blk.1.attn_k_norm.weight"}) {
    for (const bool has_short_one : {false, true}) {
      test::GgufBuilder file(gguf);
      file.remove_tensor(name);
      if (has_short_one) file.add_tensor(name, WeightFormat::kF32, {8});
      const test::TemporaryFile changed(file);
      Model model;
      CHECK(model.open(changed.path().c_str(), nullptr).code() == Code::kBadFile);
      CHECK(std::string(last_failure().sentence).find("tensor '" + name + "'") != std::string::npos);
    }
  }
}

TEST_CASE("three qwen3 sessions that answer together say what each says alone, with slots dropped on the way or none") {
  const test::TemporaryModel file({.architecture = "qwen3", .kv_heads = 2, .head_dim = 24}, kSeed);
  Model model;
  REQUIRE_MESSAGE(model.open(file.path().c_str(), nullptr).ok(), last_failure().sentence);
  constexpr int64_t kPrompts[] = {5, 41, 17};
  for (const std::string_view method : {"none", "h2o", "streaming-llm"}) {
    CAPTURE(method);
    ocellus_limits limits = test::board_limits(0, 64);
    limits.max_sessions = 3;
    test::set_text(limits.cache.evict, method);
    if (method != "none") limits.cache.keep = 0.6f;
    const std::unique_ptr<Engine> engine = test::make_engine(model, limits);
    ocellus_generate_params params = test::default_params(15);
    params.ignore_end = 1;
    std::vector<Session*> sessions;
    for (int i = 0; i < 3; ++i) sessions.push_back(&test::open_session(*engine));
    const auto tell = [&](size_t i) {
      const std::vector<TokenId> prompt = random_tokens(kPrompts[i], i);
      sessions[i]->reset();
      const Status status = sessions[i]->add_tokens(prompt.data(), kPrompts[i]);
      REQUIRE_MESSAGE(status.ok(), last_failure().sentence);
    };
    std::vector<std::string> alone;
    for (size_t i = 0; i < 3; ++i) {
      tell(i);
      alone.push_back(test::answer_of(*sessions[i], params).text);
    }
    std::vector<test::Answer> together;
    for (size_t i = 0; i < 3; ++i) {
      tell(i);
      test::first_logits(*sessions[i]);  // reads it: a prompt waits for one session at a time
    }
    together = test::batch_answers(sessions, params);
    for (size_t i = 0; i < 3; ++i) {
      REQUIRE_MESSAGE(together[i].status.ok(), last_failure().sentence);
      CHECK(together[i].stats.generated_tokens == 15);
      if (!engine->queue().on_cuda()) CHECK(together[i].text == alone[i]);  // roundings differ, and so may near ties
    }
  }
}

TEST_CASE("every weight format" * doctest::test_suite("long")) {
  for (int i = 0; i < kWeightFormatCount; ++i) {
    const auto format = static_cast<WeightFormat>(i);
    const char* name = format_info(format).name;
    compare({name, wide_recipe(format)}, is_block_format(format) ? kBlockBounds : kFloatBounds);
    compare_exactly(name, wide_recipe(format));
  }
}

TEST_CASE("formats mixed in one file, as the usual quantisations mix them") {
  const auto check = [](const std::string& name, const char* architecture, WeightFormat first, WeightFormat second) {
    TextRecipe recipe = wide_recipe(first);
    recipe.architecture = architecture;
    recipe.second_format = second;
    recipe.mixed = true;
    compare({name, recipe}, kBlockBounds);
    compare_exactly(name, recipe);
  };
  check("Q4_K with Q6_K", "llama", WeightFormat::kQ4_K, WeightFormat::kQ6_K);
  check("Q4_0 with F16", "qwen2", WeightFormat::kQ4_0, WeightFormat::kF16);
  check("BF16 with Q5_1", "llama", WeightFormat::kBF16, WeightFormat::kQ5_1);
}

TEST_CASE("long prompts in one chunk, in blocks and in small chunks") {
  const TextRecipe llama = {.width = 64, .query_heads = 4, .kv_heads = 2, .head_dim = 16};
  const TextRecipe qwen2 = {
      .architecture = "qwen2", .width = 64, .query_heads = 4, .kv_heads = 1, .head_dim = 16, .biases = true};
  REQUIRE(DeviceTraits().block_rows(1000) == 128);  // the row counts below are chosen around the block size
  const Case cases[] = {
      {"llama, one chunk of three blocks", llama, 0, 301},
      {"llama, chunks of 1 row", llama, 1, 37},
      {"llama, chunks of 7 rows", llama, 7, 45},
      {"llama, chunks of one block", llama, 128, 301},
      {"llama, chunks of a block and a row", llama, 129, 301},
      {"qwen2, chunks of two blocks and a bit", qwen2, 270, 301},
      {"qwen2, chunks of 16 rows, a page each", qwen2, 16, 80},
  };
  for (const Case& c : cases) compare(c, kFloatBounds);
}

TEST_CASE("a prompt in blocks of Q8_0 and Q4_K") {
  for (const WeightFormat format : {WeightFormat::kQ8_0, WeightFormat::kQ4_K}) {
    compare({format_info(format).name, wide_recipe(format), 150, 171}, kBlockBounds);
  }
}

}  // namespace ocellus

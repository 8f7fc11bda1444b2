// LLaVA-1.5's kind of pair, small and random: a CLIP tower with a class row and the mlp projector, against the
// double-precision reference; pictures with nothing around them in prompts.
#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "runtime/engine/memory_plan.h"
#include "tests/support/cache_texts.h"
#include "tests/support/tiled_pictures.h"

namespace ocellus {
namespace {

using test::append_text;
using test::bound_on;
using test::ClipRecipe;
using test::Matrix;
using test::Pair;
using test::Parts;
using test::reference_rows;
using test::ReferenceText;
using test::TestPicture;
using test::TextRecipe;

constexpr int kRows = 16;  // per picture

ocellus_limits limits_for(int images, int text_tokens) { return test::picture_limits(images, text_tokens); }

/// The worst error of the image rows that wait in the chunk.
double worst_row_error(Engine& engine, const Matrix& expected) {
  const PromptChunk& chunk = engine.memory().chunk;
  double worst = 0;
  for (int64_t i = 0; i < chunk.piece_count; ++i) {
    const Piece& piece = chunk.pieces.data[i];
    if (piece.kind != RowKind::kImage) continue;
    for (int64_t row = piece.first_row; row < piece.first_row + piece.row_count; ++row) {
      const std::vector<float> got = test::download(chunk.hidden.slice_rows(row, 1), engine.queue());
      worst = std::max(worst, test::relative_error(got.data(), expected.row(row), expected.cols));
    }
  }
  return worst;
}

/// A key or value that lies near the middle of two half floats may be rounded to the other one, which moves what
/// follows by up to 3e-4.
void check_picture(const Pair& pair, int width, int height, bool lean, double cpu_bound = 3e-4) {
  CAPTURE(width);
  CAPTURE(height);
  CAPTURE(lean);
  ocellus_limits limits = limits_for(1, 8);
  limits.lean = lean ? 1 : 0;
  const std::unique_ptr<Engine> engine = test::make_engine(pair.model, limits);
  Session& session = test::open_session(*engine);
  const std::vector<TestPicture> pictures = {{width, height}};
  REQUIRE_MESSAGE(session.add_frame(pictures[0].frame()).ok(), last_failure().sentence);
  const PromptChunk& chunk = engine->memory().chunk;
  CHECK(chunk.piece_count == 1);
  CHECK(chunk.row_count == pair.model.vision().tokens_per_view());
  const Parts parts = {{.picture = 0, .view = 0}};
  const Matrix rows = reference_rows(pair.model, engine->shape().pictures.preprocess, parts, pictures);
  REQUIRE(chunk.row_count == rows.rows);
  CHECK(worst_row_error(*engine, rows) < bound_on(*engine, cpu_bound, std::max(cpu_bound, 5e-3)));

  const std::vector<float> logits = test::first_logits(session);
  CHECK(session.next_position() == rows.rows);
  const ReferenceText text(pair.model.text_file());
  const Matrix expected = text.logits(text.read(rows));
  CHECK(test::relative_error(logits.data(), expected.row(rows.rows - 1), expected.cols) <
        bound_on(*engine, cpu_bound, std::max(3 * cpu_bound, 1e-2)));
}

}  // namespace

TEST_CASE("a picture of any shape becomes the rows that CLIP and LLaVA's projector make of it") {
  const Pair pair(ClipRecipe{});
  CHECK(pair.model.vision().tokens_per_view() == kRows);
  CHECK(pair.model.vision().position_rows() == kRows + 1);
  CHECK(pair.model.delimiter_tokens({}) == 0);
  for (const bool lean : {false, true})
    for (const auto& [width, height] : {std::pair{30, 30}, {100, 37}, {5, 90}, {1, 1}, {29, 30}})
      check_picture(pair, width, height, lean);
}

TEST_CASE("every choice of a CLIP tower and of LLaVA's projector") {
  const ClipRecipe recipes[] = {
      {.activation = "gelu"},
      {.is_old = true},
      {.position_format = WeightFormat::kF16, .is_old = true},
      {.width = 64, .heads = 4, .position_format = WeightFormat::kQ8_0},
      {.layers = 3, .feature_layer = 2},
      {.patch_bias = true},
      {.projector_width = 333},  // wider than anything else
      {.image_size = 28},        // whole patches only
      {.image_size = 84},        // 145 rows: more than one block
      {.width = 72, .heads = 3, .mlp_width = 200},
      {.format = WeightFormat::kF16, .position_format = WeightFormat::kF16},
      {.format = WeightFormat::kBF16},
  };
  int number = 0;
  for (const ClipRecipe& recipe : recipes) {
    CAPTURE(number++);
    const Pair pair(recipe);
    for (const bool lean : {false, true}) check_picture(pair, 70, 50, lean);
  }
}

TEST_CASE("a CLIP tower in Q8_0") {
  // Roundings to 127 steps that fall on the other side move everything after them: see architecture_test.cpp.
  check_picture(Pair(ClipRecipe{.width = 64, .mlp_width = 96, .projector_width = 96, .format = WeightFormat::kQ8_0}),
                70, 50, false, 3e-2);
}

namespace {

/// Two pictures without a token between them.
Parts conversation_parts() {
  Parts parts;
  append_text(parts, "Compare ");
  parts.push_back({.picture = 0, .view = 0});
  parts.push_back({.picture = 1, .view = 0});
  append_text(parts, " and then");
  parts.push_back({.picture = 2, .view = 0});
  append_text(parts, "Which one is the darkest?");
  return parts;
}

std::vector<double> expected_logits(const Pair& pair, const PreprocessConfig& config) {
  const Matrix rows = reference_rows(pair.model, config, conversation_parts(), test::conversation_pictures());
  const ReferenceText text(pair.model.text_file());
  const Matrix all = text.logits(text.read(rows));
  return {all.row(rows.rows - 1), all.row(rows.rows - 1) + all.cols};
}

test::Answer answer(Session& session) {
  ocellus_generate_params params = test::default_params(16);
  params.ignore_end = 1;
  test::Answer out = test::answer_of(session, params);
  REQUIRE_MESSAGE(out.status.ok(), last_failure().sentence);
  CHECK(out.stats.generated_tokens == 16);
  return out;
}

}  // namespace

TEST_CASE("three pictures without marks in one conversation, whatever the size of a chunk or of a batch of views") {
  const Pair pair(TextRecipe{.layers = 3, .kv_heads = 2}, ClipRecipe{});
  std::string first_answer;
  std::vector<double> expected;
  struct Choice {
    int32_t chunk_rows, lean, batch;
  };
  for (const Choice& choice : {Choice{0, 0, 1}, {40, 0, 1}, {1, 0, 1}, {0, 1, 1}, {40, 1, 1}, {0, 0, 8}, {0, 0, 2}}) {
    CAPTURE(choice.chunk_rows);
    CAPTURE(choice.lean);
    CAPTURE(choice.batch);
    ocellus_limits limits = limits_for(3, 64);
    limits.max_prompt_rows = choice.chunk_rows;
    limits.lean = choice.lean;
    limits.max_encode_views = choice.batch;
    const std::unique_ptr<Engine> engine = test::make_engine(pair.model, limits);
    Session& session = test::open_session(*engine);
    test::add_conversation(session);
    const std::vector<float> logits = test::first_logits(session);
    if (expected.empty()) expected = expected_logits(pair, engine->shape().pictures.preprocess);
    CHECK(test::relative_error(logits.data(), expected.data(), static_cast<int64_t>(expected.size())) <
          bound_on(*engine, 3e-4, 1e-2));
    CHECK(session.next_position() == static_cast<int64_t>(conversation_parts().size()) - 3 + 3 * kRows);
    CHECK(session.cache().image_count() == 3);
    const test::Answer said = answer(session);
    if (first_answer.empty()) first_answer = said.text;
    if (!engine->queue().on_cuda()) CHECK(said.text == first_answer);  // roundings differ, and so may near ties
  }
}

namespace {

void check_methods(const Pair& pair) {
  const auto answer_with = [&](auto change) {
    ocellus_limits limits = limits_for(3, 64);
    change(limits);
    const std::unique_ptr<Engine> engine = test::make_engine(pair.model, limits);
    Session& session = test::open_session(*engine);
    test::add_conversation(session);
    const std::vector<float> logits = test::first_logits(session);
    answer(session);
    CHECK(session.cache().image_count() == 3);
    const std::vector<double> expected = expected_logits(pair, engine->shape().pictures.preprocess);
    return test::relative_error(logits.data(), expected.data(), static_cast<int64_t>(expected.size()));
  };
  const double none = answer_with([](ocellus_limits&) {});
  CHECK(none < 1e-2);
  CHECK(answer_with([](ocellus_limits& limits) { limits.cache.kv_bits = 8; }) < 1e-2);  // packed after the prompt
  CHECK(answer_with([](ocellus_limits& limits) {
          test::set_text(limits.cache.evict, "david");
          limits.cache.keep = 0.5f;
        }) < 1e-2);
  const double packed_early = answer_with([](ocellus_limits& limits) {
    limits.cache.kv_bits = 8;
    limits.cache.compress_at = OCELLUS_COMPRESS_IMAGE_END;
  });
  CHECK(packed_early < 5e-2);
  CHECK(packed_early > none);
  for (const std::string_view method : {"snapkv", "h2o", "streaming-llm"})
    CHECK(answer_with([&](ocellus_limits& limits) {
            test::set_text(limits.cache.evict, method);
            limits.cache.keep = 0.5f;
          }) < 1e-2);
  // Read in place are all rows, some or none.
  CHECK(answer_with([](ocellus_limits& limits) {
          limits.reuse = OCELLUS_REUSE_MPIC;
          limits.reuse_rows = -1;
        }) < 1e-2);
  for (const ocellus_reuse reuse : {OCELLUS_REUSE_MPIC, OCELLUS_REUSE_SPREAD, OCELLUS_REUSE_CARRY, OCELLUS_REUSE_TILES,
                                    OCELLUS_REUSE_FULL, OCELLUS_REUSE_BLEND, OCELLUS_REUSE_PREFIX}) {
    CAPTURE(static_cast<int>(reuse));
    for (const int32_t rows : {3, 1}) {
      const double error = answer_with([&](ocellus_limits& limits) {
        limits.reuse = reuse;
        limits.reuse_rows = rows;
      });
      CHECK(error < 1);
    }
  }
}

}  // namespace

TEST_CASE("pictures without marks are packed, evicted and linked like others") {
  for (const char* architecture : {"llama", "qwen3"}) {
    CAPTURE(architecture);
    // Heads as packing on a GPU wants them.
    check_methods({TextRecipe{.architecture = architecture, .layers = 3, .kv_heads = 2, .head_dim = 32}, ClipRecipe{}});
  }
}

TEST_CASE("the plan counts the rows of a picture without marks, and of the tower with its class row") {
  const Pair pair(ClipRecipe{});
  for (const int32_t lean : {0, 1}) {
    ocellus_limits limits = limits_for(2, 32);
    limits.device = OCELLUS_DEVICE_CPU;
    limits.lean = lean;
    ocellus_plan plan;
    REQUIRE_MESSAGE(plan_memory(pair.model, limits, &plan).ok(), last_failure().sentence);
    CHECK(plan.kv_bytes_per_image == kRows * plan.kv_bytes_per_token);
    bool found = false;
    for (int32_t i = 0; i < plan.row_count; ++i) {
      if (std::string(plan.rows[i].name) != "vision hidden") continue;
      found = true;
      CHECK(plan.rows[i].bytes >= (kRows + 1) * 48 * 4);
    }
    CHECK(found);
  }
}

}  // namespace ocellus

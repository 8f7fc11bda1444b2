// Pictures cut into tiles, on small random pairs: which rows stand where in the prompt, every image row against the
// double-precision tower, conversations over several pictures, and the bounds that were planned.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/rows/gather_rows.h"
#include "runtime/branches/roll/roll.h"
#include "tests/support/cache_texts.h"
#include "tests/support/tiled_pictures.h"

namespace ocellus {
namespace {

using test::append_picture;
using test::append_text;
using test::bound_on;
using test::Matrix;
using test::Pair;
using test::Part;
using test::Parts;
using test::picture_limits;
using test::reference_rows;
using test::reference_view;
using test::ReferenceText;
using test::TestPicture;
using test::TextRecipe;
using test::VisionRecipe;

/// The pieces that wait in the chunk are `parts` cut where text and views meet, and hold their tokens.
void check_pieces(const PromptChunk& chunk, const Parts& parts, int64_t tokens_per_view) {
  int64_t row = 0;
  int64_t piece = -1;
  int64_t rows_left = 0;  // remaining rows of the piece
  for (const Part& part : parts) {
    const int64_t count = part.view < 0 ? 1 : tokens_per_view;
    if (rows_left == 0) {
      REQUIRE(++piece < chunk.piece_count);
      rows_left = chunk.pieces.data[piece].row_count;
      CHECK(chunk.pieces.data[piece].first_row == row);
    }
    const Piece& got = chunk.pieces.data[piece];
    CHECK(got.kind == (part.view < 0 ? RowKind::kText : RowKind::kImage));
    if (part.view >= 0) CHECK(got.image_ordinal == part.picture);
    for (int64_t i = 0; i < count; ++i)
      CHECK(chunk.token_ids.host.data[row + i] == (part.view < 0 ? part.token : kSkippedRow));
    REQUIRE(rows_left >= count);
    rows_left -= count;
    row += count;
  }
  CHECK(rows_left == 0);
  CHECK(piece == chunk.piece_count - 1);
  CHECK(chunk.row_count == row);
}

/// The worst error of the rows of a piece; its first row is row `first` of what is expected.
double worst_row_error(Engine& engine, const Piece& piece, const Matrix& expected, int64_t first) {
  const DeviceView<float> hidden = engine.memory().chunk.hidden;
  const int64_t values = piece.row_count * hidden.cols;
  const std::vector<float> rows = test::download({hidden.row(piece.first_row), 1, values}, engine.queue());
  double worst = 0;
  for (int64_t i = 0; i < piece.row_count; ++i)
    worst = std::max(worst, test::relative_error(&rows[static_cast<size_t>(i * hidden.cols)], expected.row(first + i),
                                                 expected.cols));
  return worst;
}

/// The same over all images that wait in the chunk; text is looked up later.
double worst_image_row_error(Engine& engine, const Matrix& expected) {
  const PromptChunk& chunk = engine.memory().chunk;
  double worst = 0;
  for (int64_t i = 0; i < chunk.piece_count; ++i) {
    const Piece& piece = chunk.pieces.data[i];
    if (piece.kind == RowKind::kImage)
      worst = std::max(worst, worst_row_error(engine, piece, expected, piece.first_row));
  }
  return worst;
}

struct Cut {
  int width, height;
  int tile_rows, tile_cols;
};

void check_picture(const Pair& pair, const Cut& cut, bool lean) {
  CAPTURE(cut.width);
  CAPTURE(cut.height);
  CAPTURE(lean);
  ocellus_limits limits = picture_limits(1, 8);
  limits.lean = lean ? 1 : 0;
  const std::unique_ptr<Engine> engine = test::make_engine(pair.model, limits);
  Session& session = test::open_session(*engine);
  const std::vector<TestPicture> pictures = {{cut.width, cut.height}};
  REQUIRE_MESSAGE(session.add_frame(pictures[0].frame()).ok(), last_failure().sentence);
  Parts parts;
  append_picture(parts, 0, cut.tile_rows, cut.tile_cols);

  const PromptChunk& chunk = engine->memory().chunk;
  check_pieces(chunk, parts, pair.model.vision().tokens_per_view());
  const Matrix rows = reference_rows(pair.model, engine->shape().pictures.preprocess, parts, pictures);
  REQUIRE(chunk.row_count == rows.rows);
  CHECK(worst_image_row_error(*engine, rows) < bound_on(*engine, 1e-4, 5e-3));

  const std::vector<float> logits = test::first_logits(session);
  CHECK(session.next_position() == rows.rows);
  const ReferenceText text(pair.model.text_file());
  const Matrix expected = text.logits(text.read(rows));
  CHECK(test::relative_error(logits.data(), expected.row(rows.rows - 1), expected.cols) <
        bound_on(*engine, 3e-4, 1e-2));
}
void check_picture(const Pair& pair, const Cut& cut) {
  for (const bool lean : {false, true}) check_picture(pair, cut, lean);
}

}  // namespace

TEST_CASE("a picture becomes the rows of its tiles and its overview, in the order of the prompt") {
  const Pair pair(VisionRecipe{.longest_edge = 96});
  for (const Cut& cut :
       {Cut{96, 64, 2, 3}, {64, 64, 3, 3}, {100, 37, 2, 3}, {33, 200, 3, 1}, {96, 96, 3, 3}, {500, 3, 1, 3}})
    check_picture(pair, cut);
}

TEST_CASE("a longest edge that is no multiple of the view, and one that is the view") {
  const Pair uneven(VisionRecipe{.longest_edge = 80});
  check_picture(uneven, {100, 37, 2, 3});
  check_picture(uneven, {37, 100, 3, 2});
  const Pair single(VisionRecipe{.longest_edge = 32});
  check_picture(single, {50, 40, 0, 0});
}

TEST_CASE("without tiles only the overview remains") {
  const Pair pair(VisionRecipe{});
  for (const Cut& cut : {Cut{32, 32, 0, 0}, {100, 37, 0, 0}, {5, 90, 0, 0}}) check_picture(pair, cut);
}

TEST_CASE("the reference tells views apart") {
  // Else views in a wrong order would pass.
  const Pair pair(VisionRecipe{.longest_edge = 96});
  const std::unique_ptr<Engine> engine = test::make_engine(pair.model, picture_limits(1, 8));
  const TestPicture picture(96, 96);
  const PreprocessConfig& config = engine->shape().pictures.preprocess;
  const Matrix first = reference_view(pair.model, config, picture.image(), 0);
  for (int view = 1; view < 10; ++view) {
    const Matrix other = reference_view(pair.model, config, picture.image(), view);
    const std::vector<float> values(other.values.begin(), other.values.end());
    CHECK(test::relative_error(values.data(), first.row(0), first.rows * first.cols) > 0.1);
  }
}

TEST_CASE("every choice of a tower") {
  const VisionRecipe recipes[] = {
      {.activation = "silu"},
      {.activation = "quick_gelu"},
      {.swapped_mlp = true},
      {.image_size = 36},  // four pixels of each side belong to no patch
      {.scale_factor = 1},
      {.scale_factor = 4},
      {.image_size = 64, .layers = 3},
      {.image_size = 48, .patch_size = 4, .scale_factor = 3},  // 144 patches: more than one block of MLP rows
      {.width = 72, .heads = 3, .mlp_width = 200},
      {.format = WeightFormat::kF16},
      {.format = WeightFormat::kBF16, .activation = "silu"},
  };
  for (const VisionRecipe& recipe : recipes) {
    CAPTURE(recipe.image_size);
    CAPTURE(std::string(recipe.activation));
    check_picture(Pair(recipe), {70, 50, 0, 0});
  }
}

TEST_CASE("a tower in Q8_0") {
  // As with language models: views that meet no rounding tie agree as float arithmetic does, the others to 1/127.
  const Pair pair(VisionRecipe{.longest_edge = 96, .format = WeightFormat::kQ8_0});
  const std::unique_ptr<Engine> engine = test::make_engine(pair.model, picture_limits(1, 8));
  const TestPicture picture(96, 96);
  REQUIRE(test::open_session(*engine).add_frame(picture.frame()).ok());
  const PromptChunk& chunk = engine->memory().chunk;
  double best = 1;
  int view = 0;
  for (int64_t i = 0; i < chunk.piece_count; ++i) {
    const Piece& piece = chunk.pieces.data[i];
    if (piece.kind != RowKind::kImage) continue;
    const Matrix expected = reference_view(pair.model, engine->shape().pictures.preprocess, picture.image(), view++);
    const double error = worst_row_error(*engine, piece, expected, 0);
    CHECK(error < 3e-2);
    best = std::min(best, error);
  }
  CHECK(view == 10);
  CHECK(best < bound_on(*engine, 3e-5, 2e-2));
}

namespace {

Parts conversation_parts() {
  Parts parts;
  append_text(parts, "Compare ");
  append_picture(parts, 0, 2, 3);
  append_picture(parts, 1, 3, 1);
  append_text(parts, " and then");
  append_picture(parts, 2, 3, 3);
  append_text(parts, "Which one is the darkest?");
  return parts;
}

}  // namespace

TEST_CASE("three tiled pictures in one conversation, whatever the size of a chunk") {
  const Pair qwen2(TextRecipe{.architecture = "qwen2", .layers = 3, .kv_heads = 1, .biases = true},
                   VisionRecipe{.longest_edge = 96});
  const Pair qwen3(TextRecipe{.architecture = "qwen3", .layers = 3, .kv_heads = 2, .head_dim = 24, .tied = true},
                   VisionRecipe{.longest_edge = 96});
  for (const Pair* const both : {&qwen2, &qwen3}) {
    const Pair& pair = *both;
    std::string first_answer;
    std::vector<double> expected;
    // Everything; two pictures do not fit; as few as one picture allows.
    for (const auto& [chunk_rows, lean] : {std::pair{0, 0}, {90, 0}, {1, 0}, {0, 1}, {90, 1}}) {
      CAPTURE(chunk_rows);
      CAPTURE(lean);
      ocellus_limits limits = picture_limits(3, 64);
      limits.max_prompt_rows = chunk_rows;
      limits.lean = lean;
      const std::unique_ptr<Engine> engine = test::make_engine(pair.model, limits);
      Session& session = test::open_session(*engine);
      test::add_conversation(session);
      const std::vector<float> logits = test::first_logits(session);
      if (expected.empty()) {
        const Matrix rows = reference_rows(pair.model, engine->shape().pictures.preprocess, conversation_parts(),
                                           test::conversation_pictures());
        const ReferenceText text(pair.model.text_file());
        const Matrix all = text.logits(text.read(rows));
        expected.assign(all.row(rows.rows - 1), all.row(rows.rows - 1) + all.cols);
        CHECK(session.next_position() == rows.rows);
      }
      CHECK(test::relative_error(logits.data(), expected.data(), static_cast<int64_t>(expected.size())) <
            bound_on(*engine, 3e-4, 1e-2));
      CHECK(session.cache().image_count() == 3);

      ocellus_generate_params params = test::default_params(16);
      params.ignore_end = 1;
      const test::Answer answer = test::answer_of(session, params);
      REQUIRE_MESSAGE(answer.status.ok(), last_failure().sentence);
      CHECK(answer.stats.generated_tokens == 16);
      if (first_answer.empty()) first_answer = answer.text;
      if (!engine->queue().on_cuda()) CHECK(answer.text == first_answer);  // roundings differ, and so may near ties
    }
  }
}

TEST_CASE("tiled pictures are cut down one by one, each to the share of its own rows") {
  const Pair pair(TextRecipe{.architecture = "qwen3", .layers = 3, .kv_heads = 2, .head_dim = 32, .tied = true},
                  VisionRecipe{.longest_edge = 96});
  for (const int32_t bits : {16, 4}) {
    for (const std::string_view method : {"snapkv", "elastic-prefill", "csp", "random"}) {
      CAPTURE(bits);
      CAPTURE(method);
      ocellus_limits limits = picture_limits(3, 64);
      test::set_text(limits.cache.evict, method);
      limits.cache.keep = 0.5f;
      limits.cache.kv_bits = bits;
      limits.cache.compress_at = OCELLUS_COMPRESS_IMAGE_END;
      const std::unique_ptr<Engine> engine = test::make_engine(pair.model, limits);
      Session& session = test::open_session(*engine);
      test::add_conversation(session);
      const test::Answer answer = test::answer_of(session, test::default_params(4));
      REQUIRE_MESSAGE(answer.status.ok(), last_failure().sentence);
      CHECK(session.cache().image_count() == 3);
      CHECK(answer.stats.image_tokens == 28 + 16 + 40);
      const KvShape& kv = engine->shape().kv;
      const CacheBytes bytes = session.cache().bytes();
      const int64_t text = session.cache().text_slots() * kv.slot_bytes();
      if (bits == 16) CHECK(bytes.payload == (14 + 8 + 20) * kv.slot_bytes() + text);
      CHECK(bytes.payload < session.cache().full_bytes());
      // A rolling session takes more of them than are planned.
      session.reset();
      REQUIRE_MESSAGE(set_rolling(session, 2, 0).ok(), last_failure().sentence);
      const TestPicture worst(64, 64);
      for (int i = 0; i < 7; ++i) REQUIRE_MESSAGE(session.add_frame(worst.frame()).ok(), last_failure().sentence);
      CHECK(test::answer_of(session, test::default_params(4)).status.ok());
      CHECK(session.cache().image_count() == 2);
    }
  }
}

TEST_CASE("a session takes exactly the worst pictures it was planned for") {
  const Pair pair(VisionRecipe{.longest_edge = 96});
  const std::unique_ptr<Engine> engine = test::make_engine(pair.model, picture_limits(2, 2));
  Session& session = test::open_session(*engine);
  const TestPicture worst(64, 64);
  for (int i = 0; i < 2; ++i) REQUIRE_MESSAGE(session.add_frame(worst.frame()).ok(), last_failure().sentence);
  CHECK(session.add_frame(worst.frame()).code() == Code::kFull);
  const test::Answer answer = test::answer_of(session, test::default_params(3));
  CHECK(answer.stats.image_count == 2);
  CHECK(answer.stats.image_tokens == 2 * 10 * 4);
  CHECK(session.cache().rows() <= engine->shape().slots_per_session());
}

TEST_CASE("no picture asks for more views or text than the plan has for it") {
  for (const int longest_edge : {0, 32, 80, 96, 128}) {
    const Pair pair(VisionRecipe{.longest_edge = longest_edge});
    const PreprocessConfig config = preprocess_config(pair.model.vision(), picture_limits(1, 8));
    const ViewBounds bounds = config.rules->bounds(config, {});
    const int32_t most = bounds.tiles + 1;
    bool reached = false;
    for (const int width : {1, 3, 31, 32, 33, 64, 95, 96, 97, 127, 500, 4000}) {
      for (const int height : {1, 2, 32, 33, 63, 96, 100, 129, 1000}) {
        ViewPlan plan;
        REQUIRE(plan_views(config, width, height, &plan).ok());
        CHECK(plan.view_count() <= most);
        reached = reached || plan.view_count() == most;
        Parts parts;
        append_picture(parts, 0, plan.tile_rows, plan.tile_cols);
        CHECK(static_cast<int64_t>(parts.size()) - plan.view_count() <= pair.model.delimiter_tokens(bounds));
      }
    }
    CHECK(reached);
  }
}

TEST_CASE("a bound on tiles is a bound on what is planned, and pictures keep it") {
  const Pair pair(VisionRecipe{.longest_edge = 96});
  ocellus_limits limits = picture_limits(2, 8);
  limits.max_tiles = 6;
  const std::unique_ptr<Engine> engine = test::make_engine(pair.model, limits);
  CHECK(engine->shape().pictures.views == 7);
  Session& session = test::open_session(*engine);
  REQUIRE(session.add_text("a", false).ok());
  CHECK(session.add_frame(TestPicture(300, 300).frame()).code() == Code::kBadImage);  // more pixels than planned
  CHECK(engine->memory().chunk.row_count == 1);
  const std::vector<TestPicture> pictures = {{96, 64}, {64, 64}};
  for (const TestPicture& picture : pictures)
    REQUIRE_MESSAGE(session.add_frame(picture.frame()).ok(), last_failure().sentence);
  Parts parts;
  append_text(parts, "a");
  append_picture(parts, 0, 2, 3);
  append_picture(parts, 1, 2, 2);  // nine would be too many
  check_pieces(engine->memory().chunk, parts, 4);
  const Matrix rows = reference_rows(pair.model, engine->shape().pictures.preprocess, parts, pictures);
  CHECK(worst_image_row_error(*engine, rows) < bound_on(*engine, 1e-4, 5e-3));
}

TEST_CASE("pictures that exceed the model's positions are refused with advice on tiles if they have tiles") {
  for (const int32_t edge : {96, 0}) {
    const Pair pair({.kv_heads = 2, .context_length = 40}, VisionRecipe{.longest_edge = edge});
    const std::unique_ptr<Engine> engine = test::make_engine(pair.model, picture_limits(9, 8));
    Session& session = test::open_session(*engine);
    const TestPicture picture(96, 96);
    Status status;
    for (int i = 0; i < 9 && status.ok(); ++i) status = session.add_frame(picture.frame());
    REQUIRE(status.code() == Code::kFull);
    const std::string sentence = last_failure().sentence;
    CAPTURE(sentence);
    CHECK(sentence.find("would reach position") != std::string::npos);
    CHECK((sentence.find("or plan fewer tiles per picture (max_tiles)") != std::string::npos) == (edge == 96));
  }
}

}  // namespace ocellus

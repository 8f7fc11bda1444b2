// The whole model against the reference: image rows, first logits, prompt ids, greedy answers.
//
// With the bundled Q8_0 pair always; with the F16 pair made by tools/convert/hf_to_gguf.py, to the tight tolerances, if
// OCELLUS_F16_PAIR names the folder that holds it.
#include <doctest/doctest.h>

#include <cstdlib>
#include <memory>

#include "tests/support/golden_arrays.h"
#include "tests/support/loaded_engine.h"

namespace ocellus {
namespace {

/// Every fourth row of the first picture as it waits in the prompt chunk.
std::vector<float> waiting_image_rows(Engine& engine) {
  const PromptChunk& chunk = engine.memory().chunk;
  for (int64_t i = 0; i < chunk.piece_count; ++i) {
    const Piece& piece = chunk.pieces.data[i];
    if (piece.kind != RowKind::kImage) continue;
    std::vector<float> out;
    for (int64_t row = 0; row < piece.row_count; row += 4) {
      const auto values =
          test::download({chunk.hidden.row(piece.first_row + row), 1, chunk.hidden.cols}, engine.queue());
      out.insert(out.end(), values.begin(), values.end());
    }
    return out;
  }
  return {};
}

struct Tolerance {
  double image_rows;
  double first_logits;
  int least_equal_answers;
};

void compare(const test::ModelPair& pair, const Tolerance& tolerance) {
  Model model;
  REQUIRE_MESSAGE(model.open(pair.model.c_str(), pair.mmproj.c_str()).ok(), last_failure().sentence);
  ocellus_limits limits = test::board_limits(16, 512);
  limits.max_encode_views = 1;  // pictures are encoded when they are added, so that their rows can be looked at
  const std::unique_ptr<Engine> engine = test::make_engine(model, limits);
  Session& session = test::open_session(*engine);
  int equal_answers = 0;
  double worst_rows = 0;
  double worst_logits = 0;
  for (const test::Golden& golden : test::goldens()) {
    const int id = golden.id;
    CAPTURE(id);
    REQUIRE(engine->queue().ok());
    session.reset();
    test::add_question(session, golden);
    if (id == 0)
      worst_rows = test::relative_error(waiting_image_rows(*engine).data(),
                                        test::read_halves(test::kShapeboardDir + "image_rows_00.f16"));
    const std::vector<float> expected = test::read_halves(test::kShapeboardDir + golden.first_logits);
    worst_logits = std::max(worst_logits, test::relative_error(test::first_logits(session).data(), expected));
    CHECK(session.next_position() == static_cast<int64_t>(golden.prompt_ids.size()));
    std::string text = test::answer_of(session).text;
    text.erase(0, text.find_first_not_of(' '));
    const bool equal = text == golden.text;
    equal_answers += equal;
    if (!equal) MESSAGE("answer " << id << ": '" << text << "' instead of '" << golden.text << "'");
  }
  MESSAGE("image rows " << worst_rows << ", first logits " << worst_logits << ", equal answers " << equal_answers);
  CHECK(worst_rows < tolerance.image_rows);
  CHECK(worst_logits < tolerance.first_logits);
  CHECK(equal_answers >= tolerance.least_equal_answers);
}

}  // namespace

TEST_CASE("the bundled Q8_0 pair answers as the reference does" * doctest::test_suite("long")) {
  compare(test::bundled_pair(), {.image_rows = 3e-2, .first_logits = 6e-2, .least_equal_answers = 13});
}

TEST_CASE("an F16 pair matches the reference closely and answers identically") {
  const char* folder = std::getenv("OCELLUS_F16_PAIR");
  if (folder == nullptr) {
    MESSAGE("not run: OCELLUS_F16_PAIR does not name a folder");
    return;
  }
  const std::string base = folder;
  compare({base + "/shapeboard-34m-f16.gguf", base + "/mmproj-shapeboard-34m-f16.gguf"},
          {.image_rows = 2e-3, .first_logits = 3e-3, .least_equal_answers = 14});
}

}  // namespace ocellus

// Pictures that are cut into tiles, on small random pairs of models: what stands in a prompt for them, and their rows
// by the double-precision tower.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/support/loaded_engine.h"
#include "tests/support/random_model.h"
#include "tests/support/reference_model.h"
#include "tests/support/rendered_views.h"

namespace ocellus::test {

// Ids of the random vocabulary.
inline constexpr TokenId kLineBreak = '\n';
inline constexpr TokenId kTwoLineBreaks = 256;
inline constexpr TokenId kFake = 259;
inline constexpr TokenId kGlobal = 260;
constexpr TokenId tile_token(int row, int col) { return 261 + 4 * row + col; }

struct TestPicture {
  TestPicture(int w, int h, int shift = 0) : width(w), height(h), pixels(testing::synthetic_pixels(w, h, shift)) {}
  RgbImage image() const { return testing::view_of(pixels, width, height); }
  Frame frame() const {
    Frame frame;
    frame.width = width;
    frame.height = height;
    frame.planes[0] = pixels.data();
    frame.stride_bytes[0] = int64_t{3} * width;
    return frame;
  }

  int width, height;
  std::vector<uint8_t> pixels;
};

/// A text token, or one view of a picture.
struct Part {
  TokenId token = kNoToken;
  int picture = -1;
  int view = -1;
};
using Parts = std::vector<Part>;

void append_text(Parts& parts, const std::string& text);

/// Appends a picture's part of the prompt: tiles row by row, a line break between rows, then the overview.
void append_picture(Parts& parts, int picture, int tile_rows, int tile_cols);

struct Pair {
  /// A VisionRecipe or a ClipRecipe.
  template <class Recipe>
  Pair(const TextRecipe& text, const Recipe& vision) : text_file(text, 21), vision_file(vision, 22) {
    const Status status = model.open(text_file.path().c_str(), vision_file.path().c_str());
    REQUIRE_MESSAGE(status.ok(), last_failure().sentence);
  }
  template <class Recipe>
  explicit Pair(const Recipe& vision) : Pair(TextRecipe{.kv_heads = 2}, vision) {}

  TemporaryModel text_file, vision_file;
  Model model;
};

/// The rows of one view, by mm's pixels and the reference's arithmetic.
Matrix reference_view(const Model& model, const PreprocessConfig& config, const RgbImage& image, int view);

/// All rows of a prompt, as the reference has them.
Matrix reference_rows(const Model& model, const PreprocessConfig& config, const Parts& parts,
                      const std::vector<TestPicture>& pictures);

ocellus_limits picture_limits(int images, int text_tokens);

/// On CUDA activations are rounded to f16 between the ops, 5e-4 each time. CPUs with tiles of bf16, which round inputs
/// of block formats to these, get twice its bound.
double bound_on(Engine& engine, double cpu, double cuda);

/// Three pictures with text before, between and after them; the first two are adjacent.
const std::vector<TestPicture>& conversation_pictures();
void add_conversation(Session& session);

}  // namespace ocellus::test

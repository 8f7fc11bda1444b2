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

inline void append_text(Parts& parts, const std::string& text) {
  for (const char c : text) parts.push_back({.token = static_cast<uint8_t>(c)});
}

/// Appends a picture's part of the prompt: tiles row by row, a line break between rows, then the overview.
inline void append_picture(Parts& parts, int picture, int tile_rows, int tile_cols) {
  const auto text = [&](TokenId token) { parts.push_back({.token = token}); };
  const auto view = [&](int index) { parts.push_back({.picture = picture, .view = index}); };
  for (int row = 0; row < tile_rows; ++row) {
    if (row > 0) text(kLineBreak);
    for (int col = 0; col < tile_cols; ++col) {
      text(kFake);
      text(tile_token(row, col));
      view(row * tile_cols + col);
    }
  }
  text(kTwoLineBreaks);
  text(kFake);
  text(kGlobal);
  view(tile_rows * tile_cols);
  text(kFake);
}

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
inline Matrix reference_view(const Model& model, const PreprocessConfig& config, const RgbImage& image, int view) {
  const std::vector<testing::Planes> views = testing::render_views(config, image);
  return ReferenceVision(model.vision_file()).encode(views[static_cast<size_t>(view)].data());
}

/// All rows of a prompt, as the reference has them.
inline Matrix reference_rows(const Model& model, const PreprocessConfig& config, const Parts& parts,
                             const std::vector<TestPicture>& pictures) {
  const ReferenceText text(model.text_file());
  Matrix all(0, model.text().width);
  for (const Part& part : parts) {
    const Matrix rows =
        part.view < 0 ? text.embed({part.token})
                      : reference_view(model, config, pictures[static_cast<size_t>(part.picture)].image(), part.view);
    all.values.insert(all.values.end(), rows.values.begin(), rows.values.end());
    all.rows += rows.rows;
  }
  return all;
}

inline ocellus_limits picture_limits(int images, int text_tokens) {
  ocellus_limits limits = board_limits(images, text_tokens);
  limits.max_encode_views = 1;  // views are encoded when they are added, so that their rows can be looked at
  return limits;
}

/// On CUDA activations are rounded to f16 between the ops, 5e-4 each time.
inline double bound_on(Engine& engine, double cpu, double cuda) { return engine.queue().on_cuda() ? cuda : cpu; }

/// Three pictures with text before, between and after them; the first two are adjacent.
inline const std::vector<TestPicture>& conversation_pictures() {
  static const std::vector<TestPicture> pictures = {{96, 64}, {33, 200}, {64, 60}};
  return pictures;
}
inline void add_conversation(Session& session) {
  const std::vector<TestPicture>& pictures = conversation_pictures();
  REQUIRE(session.add_text("Compare ", false).ok());
  REQUIRE_MESSAGE(session.add_frame(pictures[0].frame()).ok(), last_failure().sentence);
  REQUIRE_MESSAGE(session.add_frame(pictures[1].frame()).ok(), last_failure().sentence);
  REQUIRE(session.add_text(" and then", false).ok());
  REQUIRE_MESSAGE(session.add_frame(pictures[2].frame()).ok(), last_failure().sentence);
  REQUIRE(session.add_text("Which one is the darkest?", false).ok());
}

}  // namespace ocellus::test

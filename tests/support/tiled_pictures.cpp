#include "tests/support/tiled_pictures.h"

#include "tests/support/pairs.h"

namespace ocellus::test {

void append_text(Parts& parts, const std::string& text) {
  for (const char c : text) parts.push_back({.token = static_cast<uint8_t>(c)});
}

void append_picture(Parts& parts, int picture, int tile_rows, int tile_cols) {
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
  if (tile_rows > 0) text(kTwoLineBreaks);
  text(kFake);
  text(kGlobal);
  view(tile_rows * tile_cols);
  text(kFake);
}

Matrix reference_view(const Model& model, const PreprocessConfig& config, const RgbImage& image, int view) {
  const std::vector<testing::Planes> views = testing::render_views(config, image);
  return ReferenceVision(model.vision_file()).encode(views[static_cast<size_t>(view)].data());
}

Matrix reference_rows(const Model& model, const PreprocessConfig& config, const Parts& parts,
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

ocellus_limits picture_limits(int images, int text_tokens) {
  ocellus_limits limits = board_limits(images, text_tokens);
  limits.max_encode_views = 1;  // views are encoded when they are added, so that their rows can be looked at
  return limits;
}

double bound_on(Engine& engine, double cpu, double cuda) {
  if (engine.queue().on_cuda()) return cuda;
  return takes_pairs(WeightFormat::kQ8_0, 8) ? 2 * cuda : cpu;
}

const std::vector<TestPicture>& conversation_pictures() {
  static const std::vector<TestPicture> pictures = {{96, 64}, {33, 200}, {64, 60}};
  return pictures;
}

void add_conversation(Session& session) {
  const std::vector<TestPicture>& pictures = conversation_pictures();
  REQUIRE(session.add_text("Compare ", false).ok());
  REQUIRE_MESSAGE(session.add_frame(pictures[0].frame()).ok(), last_failure().sentence);
  REQUIRE_MESSAGE(session.add_frame(pictures[1].frame()).ok(), last_failure().sentence);
  REQUIRE(session.add_text(" and then", false).ok());
  REQUIRE_MESSAGE(session.add_frame(pictures[2].frame()).ok(), last_failure().sentence);
  REQUIRE(session.add_text("Which one is the darkest?", false).ok());
}

}  // namespace ocellus::test

// A made-up family whose pictures take fewer positions than rows: a small random pair of LLaVA-1.5's kind, of whose
// pictures the 16 rows stand at 4 positions, or in a grid of 4 x 4 whose lines and columns are positions.
#pragma once

#include "mm/tower/vision_model.h"
#include "tests/support/tiled_pictures.h"

namespace ocellus::test {

inline constexpr int64_t kSharingRows = 16, kSharingPositions = 4;
inline constexpr int32_t kSharingCols = 4;

class SharingPair {
 public:
  /// `context_length`: positions of the language model.
  explicit SharingPair(int context_length = 4096) : SharingPair("llama", context_length) {}
  /// An architecture with sections: rows of a picture form a grid.
  explicit SharingPair(const char* architecture, int context_length = 4096)
      : pair_({.architecture = architecture, .kv_heads = 2, .context_length = context_length}, ClipRecipe{}),
        family_(*model().vision().family) {
    rules() = *family_.views;
    cols() = model().text().rope.sections.used() ? kSharingCols : 0;
    rules().plan = [](const PreprocessConfig& config, ViewPlan* plan) {
      own_rules().plan(config, plan);
      plan->view_positions = kSharingPositions;
      plan->view_cols = cols();
    };
    rules().bounds = [](const PreprocessConfig& config, const ImageLimits& limits) {
      ViewBounds bounds = own_rules().bounds(config, limits);
      bounds.positions = kSharingPositions;
      return bounds;
    };
    own_rules() = *family_.views;
    family_.views = &rules();
    const_cast<VisionConfig&>(model().vision()).family = &family_;  // of a model that is no constant
  }
  SharingPair(const SharingPair&) = delete;
  SharingPair& operator=(const SharingPair&) = delete;

  Model& model() { return pair_.model; }

  /// Logits after the last row of a prompt, by the reference: rows stand where the family says, and see those before
  /// them. A NUL stands for the picture.
  std::vector<double> expected(const std::string& prompt, const Engine& engine, const TestPicture& picture) {
    Parts parts;
    std::vector<int64_t> positions;
    int64_t position = 0;
    for (const char c : prompt) {
      if (c != '\0') {
        append_text(parts, std::string(1, c));
        positions.insert(positions.end(), cols() > 0 ? 3 : 1, position++);
        continue;
      }
      parts.push_back({.picture = 0, .view = 0});
      for (int64_t row = 0; row < kSharingRows; ++row) add_place(position, row, positions);
      position += kSharingPositions;
    }
    const ReferenceText text(model().text_file());
    const Matrix rows = reference_rows(model(), engine.shape().pictures.preprocess, parts, {picture});
    const Matrix logits = text.logits(text.read(rows, positions));
    return {logits.row(rows.rows - 1), logits.row(rows.rows - 1) + logits.cols};
  }

 private:
  static void add_place(int64_t first, int64_t row, std::vector<int64_t>& positions) {
    if (cols() > 0)
      positions.insert(positions.end(), {first, first + row / cols(), first + row % cols()});
    else
      positions.push_back(first + row * kSharingPositions / kSharingRows);
  }
  static int32_t& cols() {
    static int32_t count;
    return count;
  }
  static ViewRules& own_rules() {
    static ViewRules rules;
    return rules;
  }
  static ViewRules& rules() {
    static ViewRules rules;
    return rules;
  }

  Pair pair_;
  VisionFamily family_;
};

}  // namespace ocellus::test

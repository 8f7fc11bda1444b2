// The parts of one picture in a prompt: its views and the texts around them, by the family's ImageMarks.
//
//   before  (before_tile tile)...  after_tile_row  ...  before_overview overview  after
//
// or, if the overview comes first, before the tiles. Each text is tokenised by itself, with special tokens.
#pragma once

#include <cstdint>

#include "mm/views/view_plan.h"

namespace ocellus {

struct ImagePiece {
  int32_t view_index = -1;  // index of the first view; -1: text
  int32_t view_count = 0;   // one, or all tiles whose rows are one map
  int64_t rows = 0;         // rows in the language model; views only
  int64_t positions = 0;    // positions that those rows take
  int32_t cols = 0;         // columns of the grid of those rows: see ViewPlan
  char text[64] = {};       // zero-terminated
  bool is_view() const { return view_index >= 0; }
};

/// Iterates over the pieces of a picture in the order of the prompt. Views appear as 0, 1, 2, ...
class ImagePieces {
 public:
  explicit ImagePieces(const ViewPlan& plan) : plan_(plan) {}
  /// Returns false after the last.
  bool next(ImagePiece* piece);

 private:
  /// Iterates over every possible piece, empty texts included.
  bool next_place(ImagePiece* piece);
  void set_views(bool is_overview, ImagePiece* piece) const;

  const ViewPlan& plan_;
  int32_t view_ = 0;
  enum class Place : uint8_t { kBefore, kText, kView, kAfterView, kAfter, kEnd } place_ = Place::kBefore;
};

}  // namespace ocellus

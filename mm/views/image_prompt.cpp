#include "mm/views/image_prompt.h"

#include <cstdio>

namespace ocellus {
namespace {

ImagePiece text_piece(const char* text) {
  ImagePiece piece;
  std::snprintf(piece.text, sizeof(piece.text), "%s", text);
  return piece;
}

ImagePiece view_piece(int32_t view_index) {
  ImagePiece piece;
  piece.view_index = view_index;
  return piece;
}

ImagePiece tile_piece(int32_t row, int32_t col) {
  ImagePiece piece;
  std::snprintf(piece.text, sizeof(piece.text), "<fake_token_around_image><row_%d_col_%d>", row + 1, col + 1);
  return piece;
}

// Every row of tiles is a text and a view a tile, then a line break; the last row has none.
int32_t pieces_per_row(const ViewPlan& plan) { return 2 * plan.tile_cols + 1; }
int32_t tile_piece_count(const ViewPlan& plan) {
  return plan.tile_rows == 0 ? 0 : plan.tile_rows * pieces_per_row(plan) - 1;
}

}  // namespace

int32_t image_piece_count(const ViewPlan& plan) {
  return plan.marks == ViewMarks::kNone ? plan.view_count : tile_piece_count(plan) + 3;
}

ImagePiece image_piece(const ViewPlan& plan, int32_t index) {
  if (plan.marks == ViewMarks::kNone) return view_piece(index);
  const int32_t overview = index - tile_piece_count(plan);
  if (overview == 0) return text_piece("\n\n<fake_token_around_image><global-img>");
  if (overview == 1) return view_piece(plan.view_count - 1);
  if (overview == 2) return text_piece("<fake_token_around_image>");
  const int32_t row = index / pieces_per_row(plan), within = index % pieces_per_row(plan);
  const int32_t col = within / 2;
  if (col == plan.tile_cols) return text_piece("\n");
  return within % 2 == 0 ? tile_piece(row, col) : view_piece(row * plan.tile_cols + col);
}

}  // namespace ocellus

#include "mm/views/image_prompt.h"

#include <cstdio>

namespace ocellus {

bool ImagePieces::next(ImagePiece* piece) {
  do {
    if (!next_place(piece)) return false;
  } while (piece->is_view() ? piece->rows == 0 : piece->text[0] == '\0');
  return true;
}

/// Tiles whose rows are one map are one piece; without tiles the map's only row end follows the overview.
void ImagePieces::set_views(bool is_overview, ImagePiece* piece) const {
  const bool is_map = plan_.rules->has_map && !is_overview;
  piece->view_index = view_;
  piece->view_count = is_map ? plan_.tile_count() : 1;
  piece->rows = is_map ? plan_.map.rows() : plan_.rows_of(view_);
  if (plan_.tile_count() == 0) piece->rows = plan_.row_count();
  piece->positions = plan_.rules->has_map ? piece->rows : plan_.positions_of(view_);
  piece->cols = plan_.view_cols;
}

bool ImagePieces::next_place(ImagePiece* piece) {
  const ImageMarks& marks = plan_.rules->marks;
  const auto set_text = [&](const char* text) { std::snprintf(piece->text, sizeof piece->text, "%s", text); };
  *piece = {};
  const bool is_overview = view_ == plan_.overview_index();
  const int32_t tile = view_ - plan_.first_tile();  // index of the next tile
  switch (place_) {
    case Place::kBefore:
      set_text(plan_.opens ? marks.before : "");
      place_ = Place::kText;
      return true;
    case Place::kText:
      if (is_overview)
        set_text(plan_.tile_count() == 0 && marks.before_only_view != nullptr ? marks.before_only_view
                                                                              : marks.before_overview);
      else
        std::snprintf(piece->text, sizeof piece->text, marks.before_tile, tile / plan_.tile_cols + 1,
                      tile % plan_.tile_cols + 1);
      place_ = Place::kView;
      return true;
    case Place::kView:
      set_views(is_overview, piece);
      view_ += piece->view_count;
      place_ = Place::kAfterView;
      return true;
    case Place::kAfterView:
      if (tile > 0 && tile < plan_.tile_count() && tile % plan_.tile_cols == 0) set_text(marks.after_tile_row);
      place_ = view_ < plan_.view_count() ? Place::kText : Place::kAfter;
      return true;
    case Place::kAfter:
      set_text(plan_.closes ? marks.after : "");
      place_ = Place::kEnd;
      return true;
    case Place::kEnd: return false;
  }
  return false;
}

}  // namespace ocellus

// What stands around one picture in a prompt; for Idefics3 as llama.cpp feeds it:
//
//   per tile:     "<fake_token_around_image><row_R_col_C>"            view
//   after a row:  "\n" (not after the last)
//   overview:     "\n\n<fake_token_around_image><global-img>"         view   "<fake_token_around_image>"
//
// Each text piece is tokenised by itself, with specials. Without tiles only the overview line remains. In a LLaVA-1.5
// prompt nothing stands around a picture: it is its one view.
#pragma once

#include <cstdint>

#include "mm/views/preprocess.h"

namespace ocellus {

struct ImagePiece {
  int32_t view_index = -1;  // >= 0: the rows of this view; -1: text
  char text[64] = {};       // zero-terminated
  bool is_view() const { return view_index >= 0; }
};

/// Idefics3: 3 without tiles; 3 + 2 * tiles + (tile_rows - 1) with. LLaVA-1.5: 1.
int32_t image_piece_count(const ViewPlan& plan);

/// Piece 0 <= index < image_piece_count(plan), in the order of the prompt. Views appear as 0, 1, 2, ...
ImagePiece image_piece(const ViewPlan& plan, int32_t index);

}  // namespace ocellus

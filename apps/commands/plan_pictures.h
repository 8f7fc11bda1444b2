// Sizes of planned pictures, and those at which the model sees them.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "apps/setup/setup.h"
#include "runtime/ocellus.h"

namespace ocellus::app {

// Returns the maximum tiles of a planned picture, besides its overview; 0 if it has none.
int32_t planned_tiles(const Model& model, const ocellus_limits& limits);

// The largest planned picture, 16:9, and the size at which the model sees it.
struct LargestPicture {
  int32_t width = 0, height = 0;
  int32_t seen_width = 0, seen_height = 0;  // approximate where rows are fewer than whole_rows
  int32_t rows = 0, whole_rows = 0;  // in the language model: as planned, and with all tiles and rows it may have
  bool is_reduced() const { return seen_width < width || seen_height < height; }
};
// The model has a vision part.
LargestPicture largest_picture(const Model& model, const ocellus_limits& limits);
nlohmann::ordered_json largest_picture_json(const LargestPicture& picture);

// "about 1324 x 745"; empty if it is not reduced.
std::string seen_size(const LargestPicture& picture);

// Says how the largest planned pictures are reduced, "one of 1920 x 1080 reduced to about 1324 x 745 (1271 of 2691
// rows)", and the bound of those that are decoded as a whole if that is lower; empty: neither.
std::string describe_reduction(const Model& model, const ocellus_limits& limits);

// Describes what a session shows, as "4 pictures of up to 2073600 pixels in up to 16 tiles"; empty: nothing.
std::string describe_shown(const Model& model, const ocellus_limits& limits, const ocellus_plan& plan);

// Pictures of a session, frames of clips included.
int32_t shown_pictures(const ocellus_limits& limits);

}  // namespace ocellus::app

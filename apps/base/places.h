// Boxes and points that a model writes as coordinates in its answers.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ocellus::app {

// A box, or a point, which has equal corners.
struct Place {
  std::string label;  // may be empty
  bool is_point = false;
  double left = 0, top = 0, right = 0, bottom = 0;  // in a box left <= right and top <= bottom
};

// Finds the places of an answer, in the model's units: JSON objects with "bbox_2d" or "point_2d", wherever they are in
// the text, or Qwen2-VL's "label(x1,y1),(x2,y2)", with or without its tokens around them. Objects that are incomplete
// or have no such numbers are left out.
std::vector<Place> find_places(std::string_view answer);

// All more than 0.
struct PlaceScale {
  double units_across = 0, units_down = 0;  // the picture's size in the model's units
  int32_t width = 0, height = 0;            // the picture's size in pixels
};

// Converts to whole pixels of the picture; what is outside it is moved to its edge.
std::vector<Place> scale_places(std::vector<Place> places, const PlaceScale& scale);

// Returns [{"label": ..., "box": [left, top, right, bottom]}, {"label": ..., "point": [x, y]}, ...].
nlohmann::ordered_json places_json(const std::vector<Place>& places);

}  // namespace ocellus::app

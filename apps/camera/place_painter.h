// Paints boxes and points on a picture.
#pragma once

#include <vector>

#include "apps/base/places.h"
#include "apps/camera/picture_decode.h"

namespace ocellus::app {

// Paints boxes as outlines and points as discs, in eight colours by turns, with their labels. The font is ASCII: other
// labels are painted as their number, "#1" for the first place. The places are in pixels of the picture, which is RGB.
void paint_places(const std::vector<Place>& places, Picture* picture);

}  // namespace ocellus::app

// Detects pictures unlike those that the bundled model was trained on: a few plain shapes on a plain background.
#pragma once

#include <string>
#include <vector>

#include "apps/camera/picture_decode.h"
#include "apps/setup/image_file.h"
#include "apps/setup/setup.h"

namespace ocellus::app {

// True for a board: one of five background colours, with an even gradient, visible in more than half of the picture.
// `picture` is RGB.
bool looks_like_a_board(const Picture& picture);

// Returns a remark if the model is the bundled one and the frame, called `name`, is no board; else an empty text. Skips
// frames of more than 12.6 million pixels, whose memory would exceed all else, and damaged ones. `picture` gets the
// pixels of those that it looks at.
std::string describe_far_frame(const Model& model, const std::string& name, const Frame& frame, Picture* picture);

// Prints that remark on stderr, unless quiet, for the first of at most 16 pictures that is no board. They are decoded
// one at a time, and small ones stay decoded; call it before there is an engine.
void remark_on_far_pictures(const Model& model, const CommonOptions& options, const std::vector<ImageFile>& images);

}  // namespace ocellus::app

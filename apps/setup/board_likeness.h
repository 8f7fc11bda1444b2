// Whether a picture is of the one kind that the bundled model was trained on: a few plain shapes on a plain background.
#pragma once

#include <string>
#include <vector>

#include "apps/camera/picture_decode.h"
#include "apps/setup/image_file.h"
#include "apps/setup/setup.h"

namespace ocellus::app {

// Boards have one of five background colours, which changes evenly from side to side and shows in more than half of the
// picture. `picture` is RGB.
bool looks_like_a_board(const Picture& picture);

// A remark if the model is the bundled one and the frame, called `name`, is no board; else nothing. Not about frames of
// more than 12.6 million pixels, whose memory would be the most that the program takes, nor about damaged ones.
std::string describe_far_frame(const Model& model, const std::string& name, const Frame& frame);

// Makes that remark on stderr, unless quiet, about the first of the first 16 pictures that deserves it. They are
// decoded one at a time: best before there is an engine.
void remark_on_far_pictures(const Model& model, const CommonOptions& options, const std::vector<ImageFile>& images);

}  // namespace ocellus::app

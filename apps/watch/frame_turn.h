// Turns about frames and clips.
#pragma once

#include <string>
#include <vector>

#include "apps/camera/clip_frames.h"
#include "apps/setup/turn_answer.h"
#include "runtime/ocellus.h"

namespace ocellus::app {

// Text, a frame owned elsewhere, or a clip, which may have its last frame named, too.
struct TurnPart {
  std::string text = {};
  const Frame* frame = nullptr;
  ClipFrames clip = {};
};

// Puts the frame or clip in place of "<image>" in the prompt, else before it.
std::vector<TurnPart> place_in_prompt(const std::string& prompt, const TurnPart& shown);

// Adds all of them or none to an open turn. Returns OCELLUS_OK, OCELLUS_CANCELLED or OCELLUS_DEADLINE; throws a Failure
// for everything else.
ocellus_status add_turn_parts(Session* session, const std::vector<TurnPart>& parts);

}  // namespace ocellus::app

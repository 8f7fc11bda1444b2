// One turn about frames: text and frames in, an answer out.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "apps/camera/clip_frames.h"
#include "apps/setup/options.h"
#include "runtime/ocellus.h"

namespace ocellus::app {

// Receives the answer piece by piece.
using TextSink = std::function<void(const std::string& piece)>;

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
ocellus_status add_turn_parts(ocellus_session* session, const std::vector<TurnPart>& parts);

struct TurnAnswer {
  ocellus_status status = OCELLUS_OK;  // or OCELLUS_CANCELLED, OCELLUS_DEADLINE: the text is then incomplete
  std::string text;
  std::string thought;  // empty: none
  ocellus_generate_stats stats = {};
};

// Ends the turn and answers.
TurnAnswer answer_frames(ocellus_session* session, const CommonOptions& options, const TextSink& sink);

}  // namespace ocellus::app

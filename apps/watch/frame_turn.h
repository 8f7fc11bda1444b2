// One turn about frames: text and frames in, an answer out.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "apps/camera/frame.h"
#include "apps/setup/options.h"
#include "runtime/ocellus.h"

namespace ocellus::app {

// Gets the answer as it comes.
using TextSink = std::function<void(const std::string& piece)>;

// Text, or a frame that somebody else owns.
struct TurnPart {
  std::string text = {};
  const Frame* frame = nullptr;
};

// The frame where the prompt has "<image>", else before it.
std::vector<TurnPart> place_frame(const std::string& prompt, const Frame& frame);

// All of them or none, into a turn that has begun. Returns OCELLUS_OK, OCELLUS_CANCELLED or OCELLUS_DEADLINE; throws a
// Failure for everything else.
ocellus_status add_turn_parts(ocellus_session* session, const std::vector<TurnPart>& parts);

struct TurnAnswer {
  ocellus_status status = OCELLUS_OK;  // or OCELLUS_CANCELLED, OCELLUS_DEADLINE: the text is what came before
  std::string text;
  ocellus_generate_stats stats = {};
};

// Ends the turn and answers.
TurnAnswer answer_frames(ocellus_session* session, const CommonOptions& options, const TextSink& sink);

}  // namespace ocellus::app

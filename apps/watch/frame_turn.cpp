#include "apps/watch/frame_turn.h"

#include <memory>

#include "apps/base/failure.h"
#include "apps/base/stop_request.h"
#include "apps/setup/clip_part.h"
#include "apps/setup/prompt.h"

namespace ocellus::app {

std::vector<TurnPart> place_in_prompt(const std::string& prompt, const TurnPart& shown) {
  const size_t mark = prompt.find(kImageMark);
  if (mark == std::string::npos) return {shown, {.text = prompt}};
  std::vector<TurnPart> parts;
  if (mark > 0) parts.push_back({.text = prompt.substr(0, mark)});
  parts.push_back(shown);
  const std::string rest = prompt.substr(mark + sizeof kImageMark - 1);
  if (!rest.empty()) parts.push_back({.text = rest});
  return parts;
}

ocellus_status add_turn_parts(Session* session, const std::vector<TurnPart>& parts) {
  if (stop_requested()) return OCELLUS_CANCELLED;  // a stop before the turn was cleared when it began
  std::vector<ocellus_frame> views(parts.size());
  std::vector<std::unique_ptr<ClipPart>> clips;
  std::vector<ocellus_part> all;
  for (size_t i = 0; i < parts.size(); ++i) {
    const TurnPart& part = parts[i];
    if (!part.clip.empty()) {
      clips.push_back(std::make_unique<ClipPart>(part.clip));
      all.push_back(clips.back()->get());
    } else if (part.frame != nullptr) {
      all.push_back(frame_part(*part.frame, &views[i]));
    } else {
      all.push_back(make_part(OCELLUS_PART_TEXT, part.text));
    }
  }
  return check_turn(session->add_parts(all));
}

}  // namespace ocellus::app

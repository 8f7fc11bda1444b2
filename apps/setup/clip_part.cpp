#include "apps/setup/clip_part.h"

namespace ocellus::app {

ocellus_part frame_part(const Frame& frame, ocellus_frame* view) {
  if (frame.kind == FrameKind::kEncoded) return make_part(OCELLUS_PART_IMAGE, frame.bytes);
  *view = frame.view();
  return make_part(*view);
}

ClipPart::ClipPart(const ClipFrames& clip) : views_(clip.frames.size()), seconds_(clip.seconds) {
  for (size_t i = 0; i < clip.frames.size(); ++i) frames_.push_back(frame_part(*clip.frames[i], &views_[i]));
  clip_ = {.frame_count = static_cast<int32_t>(frames_.size()),
           .frames = frames_.data(),
           .seconds = seconds_.data(),
           .duration = clip.duration};
}

}  // namespace ocellus::app

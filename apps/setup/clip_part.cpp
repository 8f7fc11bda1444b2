#include "apps/setup/clip_part.h"

namespace ocellus::app {

ocellus_part frame_part(const Frame& frame, ocellus_frame* view) {
  const bool is_encoded = frame.kind == FrameKind::kEncoded;
  if (!is_encoded) *view = frame.view();
  return {.kind = is_encoded ? OCELLUS_PART_IMAGE : OCELLUS_PART_FRAME,
          .flags = 0,
          .bytes = frame.bytes.data(),
          .byte_count = std::ssize(frame.bytes),
          .frame = is_encoded ? nullptr : view,
          .clip = nullptr};
}

ClipPart::ClipPart(const ClipFrames& clip) : views_(clip.frames.size()), seconds_(clip.seconds) {
  for (size_t i = 0; i < clip.frames.size(); ++i) frames_.push_back(frame_part(*clip.frames[i], &views_[i]));
  clip_ = {.frame_count = static_cast<int32_t>(frames_.size()),
           .frames = frames_.data(),
           .seconds = seconds_.data(),
           .duration = clip.duration};
}

ocellus_part ClipPart::get() const {
  return {.kind = OCELLUS_PART_CLIP, .flags = 0, .bytes = nullptr, .byte_count = 0, .frame = nullptr, .clip = &clip_};
}

}  // namespace ocellus::app

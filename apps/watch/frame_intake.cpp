#include "apps/watch/frame_intake.h"

#include <algorithm>

#include "apps/base/clock.h"
#include "apps/camera/jpeg_repair.h"
#include "apps/camera/picture_decode.h"

namespace ocellus::app {
namespace {

constexpr std::chrono::milliseconds kFrameWait{50};  // maximum wait for a frame before questions are checked

bool is_damaged(const Frame& frame) {
  thread_local Picture picture;  // its memory is reused from frame to frame
  return is_jpeg(frame.bytes) && frame.kind == FrameKind::kEncoded && !decode_rgb(frame, &picture);
}

}  // namespace

bool FrameIntake::take(const WatchSettings& settings) {
  const int64_t now = monotonic_ns();
  if (settings.paused || now < due_ns_) {
    const std::chrono::milliseconds rest((std::max<int64_t>(due_ns_ - now, 0) + 999999) / 1000000);
    sources_.control->wait_for_change(settings.paused ? kIdleWait : std::min(rest, kIdleWait));
    return false;
  }
  if (!sources_.capture->take(&frame_, kFrameWait)) return false;
  gate_.set_threshold(settings.change);
  change_ = gate_.change(frame_);
  if (!gate_.pass()) {
    sources_.counts->add_unchanged();
    return false;
  }
  gather_clip();
  due_ns_ = monotonic_ns() + static_cast<int64_t>(settings.every_s * 1e9);
  return true;
}

void FrameIntake::gather_clip() {
  if (sources_.recent == nullptr) return;
  earlier_count_ = sources_.recent->copy_before(frame_, &earlier_);
  leave_damaged_out();
  const auto group = static_cast<size_t>(sources_.clip_group);
  if (earlier_count_ == 0 || (earlier_count_ + 1) % group == 0) return;
  const auto begin = earlier_.begin();
  std::rotate(begin, begin + 1, begin + static_cast<ptrdiff_t>(earlier_count_));  // the oldest becomes spare memory
  --earlier_count_;
}

// Frames up to a damaged one are left out: its pixels would be described as if they were the scene.
void FrameIntake::leave_damaged_out() {
  const int64_t looked_at = looked_at_;
  int64_t damaged = 0;
  for (size_t i = 0; i < earlier_count_; ++i) {
    looked_at_ = std::max(looked_at_, earlier_[i].sequence);
    if (earlier_[i].sequence > looked_at && is_damaged(earlier_[i])) damaged = earlier_[i].sequence;
  }
  if (damaged == 0) return;
  sources_.recent->forget_until(damaged);
  earlier_count_ = sources_.recent->copy_before(frame_, &earlier_);
}

std::vector<const Frame*> FrameIntake::clip() const {
  if (sources_.recent == nullptr) return {};
  std::vector<const Frame*> frames;
  for (size_t i = 0; i < earlier_count_; ++i) frames.push_back(&earlier_[i]);
  frames.push_back(&frame_);
  return frames;
}

void FrameIntake::drop_clip() {
  if (sources_.recent != nullptr) sources_.recent->forget_until(frame_.sequence);
}

int64_t FrameIntake::frame_bytes() const {
  int64_t bytes = sources_.recent == nullptr ? 0 : sources_.recent->bytes();
  for (const Frame& frame : earlier_) bytes += static_cast<int64_t>(frame.bytes.capacity());
  return bytes;
}

}  // namespace ocellus::app

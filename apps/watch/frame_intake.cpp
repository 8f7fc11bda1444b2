#include "apps/watch/frame_intake.h"

#include <algorithm>

#include "apps/base/clock.h"

namespace ocellus::app {
namespace {

constexpr std::chrono::milliseconds kFrameWait{50};  // maximum wait for a frame before questions are checked

}  // namespace

bool FrameIntake::take(const WatchSettings& settings) {
  const int64_t now = monotonic_ns();
  if (settings.paused || now < due_ns_) {
    const std::chrono::milliseconds rest((std::max<int64_t>(due_ns_ - now, 0) + 999999) / 1000000);
    control_->wait_for_change(settings.paused ? kIdleWait : std::min(rest, kIdleWait));
    return false;
  }
  if (!capture_->take(&frame_, kFrameWait)) return false;
  gate_.set_threshold(settings.change);
  change_ = gate_.change(frame_);
  if (!gate_.pass()) {
    counts_->add_unchanged();
    return false;
  }
  due_ns_ = monotonic_ns() + static_cast<int64_t>(settings.every_s * 1e9);
  return true;
}

}  // namespace ocellus::app

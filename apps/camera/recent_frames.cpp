#include "apps/camera/recent_frames.h"

#include <algorithm>

#include "apps/camera/clip_frames.h"

namespace ocellus::app {
namespace {

// The newest frame, and one that came since it was taken.
constexpr size_t kSpareFrames = 2;

}  // namespace

RecentFrames::RecentFrames(const ClipPace& pace)
    : most_(static_cast<size_t>(pace.frames - 1)),
      period_ns_(static_cast<int64_t>(1e9 / pace.frames_per_second)),
      kept_(most_ + kSpareFrames) {}

void RecentFrames::add(const Frame& frame) {
  const std::lock_guard<std::mutex> guard(mutex_);
  if (held_ > 0) {
    const int64_t since_ns = frame.time_ns() - kept_[held_ - 1].time_ns();
    if (since_ns <= -period_ns_) {
      held_ = 0;                                           // the source's time began again
    } else if (since_ns < period_ns_ - period_ns_ / 10) {  // a camera's frames are not evenly spaced
      return;
    }
  }
  if (held_ < kept_.size()) {
    ++held_;
  } else {
    std::rotate(kept_.begin(), kept_.begin() + 1, kept_.end());
  }
  kept_[held_ - 1] = frame;
}

size_t RecentFrames::copy_before(const Frame& newest, std::vector<Frame>* out) const {
  const std::lock_guard<std::mutex> guard(mutex_);
  const auto is_too_late = [&](const Frame& frame) {
    return frame.sequence >= newest.sequence || newest.time_ns() - frame.time_ns() < period_ns_ / 2;
  };
  size_t end = held_;
  while (end > 0 && is_too_late(kept_[end - 1])) --end;
  size_t begin = end;
  while (begin > 0 && end - begin < most_ && fit_one_clip(kept_[begin - 1], newest)) --begin;
  if (out->size() < most_) out->resize(most_);
  std::copy(kept_.begin() + static_cast<ptrdiff_t>(begin), kept_.begin() + static_cast<ptrdiff_t>(end), out->begin());
  return end - begin;
}

void RecentFrames::forget_until(int64_t sequence) {
  const std::lock_guard<std::mutex> guard(mutex_);
  size_t count = 0;
  while (count < held_ && kept_[count].sequence <= sequence) ++count;
  std::rotate(kept_.begin(), kept_.begin() + static_cast<ptrdiff_t>(count), kept_.end());
  held_ -= count;
}

int64_t RecentFrames::bytes() const {
  const std::lock_guard<std::mutex> guard(mutex_);
  int64_t bytes = 0;
  for (const Frame& frame : kept_) bytes += static_cast<int64_t>(frame.bytes.capacity());
  return bytes;
}

}  // namespace ocellus::app

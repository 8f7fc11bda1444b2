// Pacer: a steady frame rate for sources without a clock of their own.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>

#include "apps/base/clock.h"

namespace ocellus::app {

class Pacer {
 public:
  explicit Pacer(double frames_per_second) : period_ns_(static_cast<int64_t>(1e9 / frames_per_second)) {}

  // Sleeps until the next frame is due, at most `wait`. Returns true if it is due.
  bool wait_until_due(std::chrono::milliseconds wait) {
    const int64_t left_ns = due_ns_ - monotonic_ns();
    if (left_ns <= 0) return true;
    const int64_t wait_ns = std::chrono::nanoseconds(wait).count();
    std::this_thread::sleep_for(std::chrono::nanoseconds(std::min(left_ns, wait_ns)));
    return left_ns <= wait_ns;
  }
  // Schedules the next frame a period later. Missed frames are not made up for.
  void advance() {
    const int64_t now_ns = monotonic_ns();
    due_ns_ = (due_ns_ == 0 ? now_ns : due_ns_) + period_ns_;
    if (due_ns_ < now_ns - period_ns_) due_ns_ = now_ns;
  }
  // Makes nothing due for this long.
  void hold(std::chrono::nanoseconds time) { due_ns_ = std::max(due_ns_, monotonic_ns() + time.count()); }
  int64_t period_ns() const { return period_ns_; }

 private:
  int64_t period_ns_;
  int64_t due_ns_ = 0;  // 0: the first is due at once
};

}  // namespace ocellus::app

// Estimate of the time left for work of equal parts.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace ocellus::app {

// "40 s", "12 min", "3 h 20 min"
std::string format_duration(double seconds);

class TimeLeft {
 public:
  TimeLeft() : begin_(Clock::now()) {}
  // ", 12 min left" once `done` of `total` equal parts are done; empty before the first and after the last.
  std::string text(int64_t done, int64_t total) const;

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin_;
};

}  // namespace ocellus::app

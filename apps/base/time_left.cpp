#include "apps/base/time_left.h"

#include <cmath>

namespace ocellus::app {

std::string format_duration(double seconds) {
  const int64_t whole = std::llround(seconds);
  if (whole < 100) return std::to_string(whole) + " s";
  const int64_t minutes = (whole + 30) / 60;
  if (minutes < 100) return std::to_string(minutes) + " min";
  return std::to_string(minutes / 60) + " h " + std::to_string(minutes % 60) + " min";
}

std::string TimeLeft::text(int64_t done, int64_t total) const {
  if (done <= 0 || done >= total) return "";
  const std::chrono::duration<double> spent = Clock::now() - begin_;
  return ", " + format_duration(spent.count() / static_cast<double>(done) * static_cast<double>(total - done)) +
         " left";
}

}  // namespace ocellus::app

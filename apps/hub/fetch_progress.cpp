#include "apps/hub/fetch_progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "apps/base/sizes.h"
#include "apps/base/terminal.h"
#include "apps/base/time_left.h"

namespace ocellus::app {
namespace {

constexpr int64_t kBarColumns = 16;
constexpr double kMiB = 1 << 20;

std::string bar(int64_t done, int64_t total) {
  const auto filled = static_cast<size_t>(total > 0 ? kBarColumns * done / total : kBarColumns);
  return "[" + std::string(filled, '#') + std::string(kBarColumns - filled, '.') + "] ";
}

}  // namespace

FetchProgress::FetchProgress(std::string task, int64_t bytes, bool quiet)
    : task_(std::move(task)), total_(bytes), quiet_(quiet), is_terminal_(isatty(STDERR_FILENO) != 0) {}

void FetchProgress::erase() {
  if (std::exchange(has_bar_, false)) std::fputs("\r\033[K", stderr);
}

std::string FetchProgress::text(double seconds) const {
  const double rate = seconds > 0 ? static_cast<double>(arrived_) / seconds : 0;
  const auto percent = static_cast<int>(100.0 * static_cast<double>(done_) / static_cast<double>(total_));
  std::string text = std::to_string(percent) + " %, " + format_mib(done_) + " of " + format_mib(total_) + " MiB, " +
                     format_number(rate / kMiB, 1) + " MiB/s";
  if (rate > 0 && done_ < total_) text += ", " + format_duration(static_cast<double>(total_ - done_) / rate) + " left";
  return text;
}

void FetchProgress::show(int64_t done, int64_t arrived) {
  using namespace std::chrono_literals;
  done_ = std::clamp<int64_t>(done_ + done, 0, total_);
  arrived_ += arrived;
  const Clock::time_point now = Clock::now();
  if (quiet_ || total_ == 0 || now - begin_ < 1s) return;
  const double seconds = std::chrono::duration<double>(now - begin_).count();
  const int64_t tenths = static_cast<int64_t>(10.0 * static_cast<double>(done_) / static_cast<double>(total_));
  if (!is_terminal_ && tenths > tenths_) {
    tenths_ = tenths;
    print_note(task_ + ": " + text(seconds));
  }
  if (!is_terminal_ || now - shown_ < 100ms) return;
  shown_ = now;
  has_bar_ = true;
  std::fprintf(stderr, "\r\033[K%s %s%s", task_.c_str(), bar(done_, total_).c_str(), text(seconds).c_str());
  std::fflush(stderr);
}

}  // namespace ocellus::app

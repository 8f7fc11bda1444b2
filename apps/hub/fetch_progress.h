// Progress of fetching and checking files: share, bytes, rate and time left. A bar that is rewritten on a terminal;
// elsewhere a line for each tenth. Nothing in the first second.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace ocellus::app {

class FetchProgress {
 public:
  // `bytes`: of all files together.
  FetchProgress(std::string task, int64_t bytes, bool quiet);
  ~FetchProgress() { erase(); }
  FetchProgress(const FetchProgress&) = delete;
  FetchProgress& operator=(const FetchProgress&) = delete;

  // Bytes that came.
  void add(int64_t bytes) { show(bytes, bytes); }
  // Bytes that were there before, which tell nothing of the rate; negative: to take some back.
  void skip(int64_t bytes) { show(bytes, 0); }
  // Erases the bar, so that another line can be printed. The next bytes show it again.
  void erase();

 private:
  using Clock = std::chrono::steady_clock;
  void show(int64_t done, int64_t arrived);
  std::string text(double seconds) const;

  const std::string task_;
  const int64_t total_;
  const bool quiet_, is_terminal_;
  const Clock::time_point begin_ = Clock::now();
  int64_t done_ = 0, arrived_ = 0;
  int64_t tenths_ = 0;  // already printed
  bool has_bar_ = false;
  Clock::time_point shown_ = begin_;
};

}  // namespace ocellus::app

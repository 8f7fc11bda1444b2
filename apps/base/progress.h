// Progress on stderr of work that takes longer than a second: a bar on a terminal, elsewhere a line for each tenth.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "apps/base/progress_text.h"

namespace ocellus::app {

// A thread of its own draws the bar, ten times a second.
class Progress {
 public:
  // `task` names the work, "loading SmolVLM-256M"; `noun` is what set() counts, "question". Quiet: nothing is written.
  Progress(bool quiet, std::string task, std::string noun = "byte");
  ~Progress() { stop(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // An earlier run has done `done`, which counts, but not for this run's speed.
  void resume_at(int64_t done);
  // `done` of the total are done; `note` is the newest result. Before the first call, and with total 0, a terminal
  // shows the task alone, and a log nothing.
  void set(int64_t done, int64_t total, const std::string& note = "");
  void set_task(const std::string& task);
  // Erases the bar. What is set later is not shown.
  void stop();

 private:
  using Clock = std::chrono::steady_clock;
  ProgressFacts facts_now() const;
  void show_bar();

  const Clock::time_point begin_ = Clock::now();
  std::mutex mutex_;
  std::condition_variable stopped_;
  ProgressFacts facts_;
  int logged_tenths_ = 0;
  bool is_logged_ = false;
  bool is_stopping_ = false;
  std::thread thread_;
};

}  // namespace ocellus::app

#include "apps/base/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "apps/base/printable_text.h"
#include "apps/base/status_line.h"
#include "apps/base/terminal.h"

namespace ocellus::app {
namespace {

constexpr std::chrono::milliseconds kFirstAfter{1000}, kRedrawnAfter{100};

// Columns of a line that does not wrap.
size_t line_columns() {
  struct winsize size = {};
  const bool is_known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return (is_known ? size.ws_col : 80) - 1;
}

}  // namespace

Progress::Progress(bool quiet, std::string task, std::string noun) {
  facts_.task = make_printable(task, Lines::kOne);
  facts_.noun = std::move(noun);
  if (quiet) return;
  is_logged_ = isatty(STDERR_FILENO) == 0;
  if (is_logged_) return;
  erase_status_line_at_end();
  thread_ = std::thread([this] { show_bar(); });
}

void Progress::resume_at(int64_t done) {
  const std::lock_guard lock(mutex_);
  facts_.first = facts_.done = done;
}

void Progress::set(int64_t done, int64_t total, const std::string& note) {
  const std::lock_guard lock(mutex_);
  facts_.done = std::min(done, total);
  facts_.total = total;
  facts_.note = make_printable(note, Lines::kOne);
  const int tenths = facts_.percent() / 10;
  if (!is_logged_ || tenths <= logged_tenths_ || Clock::now() - begin_ < kFirstAfter) return;
  logged_tenths_ = tenths;
  print_note("ocellus: " + progress_line(facts_now()));
}

void Progress::set_task(const std::string& task) {
  const std::lock_guard lock(mutex_);
  facts_.task = make_printable(task, Lines::kOne);
}

void Progress::stop() {
  is_logged_ = false;
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  stopped_.notify_one();
  thread_.join();
}

ProgressFacts Progress::facts_now() const {
  ProgressFacts facts = facts_;
  facts.seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
  return facts;
}

// A terminal may take its time, so the work does not wait for it.
void Progress::show_bar() {
  std::unique_lock lock(mutex_);
  const auto is_stopping = [this] { return is_stopping_; };
  for (auto wait = kFirstAfter; !stopped_.wait_for(lock, wait, is_stopping); wait = kRedrawnAfter) {
    const ProgressFacts facts = facts_now();
    lock.unlock();
    show_status_line(progress_bar(facts, line_columns()));
    lock.lock();
  }
  erase_status_line();
}

}  // namespace ocellus::app

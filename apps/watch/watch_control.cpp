#include "apps/watch/watch_control.h"

namespace ocellus::app {

WatchSettings WatchControl::settings() const {
  const std::lock_guard lock(mutex_);
  return settings_;
}

void WatchControl::set(const WatchSettings& settings) {
  const std::lock_guard lock(mutex_);
  settings_ = settings;
  ++changes_;
  changed_.notify_all();
}

std::optional<int64_t> WatchControl::ask(const std::string& text) {
  const std::lock_guard lock(mutex_);
  if (questions_.size() >= kMaxWaiting) return std::nullopt;
  questions_.push_back({++asked_, text});
  ++changes_;
  changed_.notify_all();
  return asked_;
}

std::optional<WatchQuestion> WatchControl::next_question() {
  const std::lock_guard lock(mutex_);
  if (questions_.empty()) return std::nullopt;
  WatchQuestion question = std::move(questions_.front());
  questions_.pop_front();
  return question;
}

void WatchControl::wait_for_change(std::chrono::milliseconds wait) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, wait, [this] { return changes_ != seen_changes_; });
  seen_changes_ = changes_;
}

}  // namespace ocellus::app

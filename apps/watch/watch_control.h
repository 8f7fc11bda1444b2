// Requests to a running watch: settings, questions, an end. Filled by any thread, emptied by the watch.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>

namespace ocellus::app {

struct WatchSettings {
  std::string prompt;
  double every_s = 0;       // minimum time between answered frames
  double change = 0;        // threshold for the most changed cell, 0 to 1; frames that changed less are skipped
  int64_t deadline_ms = 0;  // from capture to the end of the answer; 0: none
  bool paused = false;
  // Changes of these create a new engine:
  int32_t frames = 8;  // in memory, for questions
  int32_t kv_bits = 16;
  float keep = 1;  // share of the pictures' cache slots that is kept

  bool same_engine(const WatchSettings& other) const {
    return frames == other.frames && kv_bits == other.kv_bits && keep == other.keep;
  }
};

struct WatchQuestion {
  int64_t id = 0;
  std::string text;
};

class WatchControl {
 public:
  static constexpr size_t kMaxWaiting = 8;

  explicit WatchControl(WatchSettings settings) : settings_(std::move(settings)) {}

  WatchSettings settings() const;
  void set(const WatchSettings& settings);
  // Returns the question's number; nullopt if the queue is full.
  std::optional<int64_t> ask(const std::string& text);
  // Takes the next question, if there is one.
  std::optional<WatchQuestion> next_question();
  // Waits until something is set or asked, or `wait` is over.
  void wait_for_change(std::chrono::milliseconds wait);

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  WatchSettings settings_;
  std::deque<WatchQuestion> questions_;
  int64_t asked_ = 0;
  int64_t changes_ = 0;
  int64_t seen_changes_ = 0;
};

}  // namespace ocellus::app

// What a person wants of a running watch: settings, questions, an end. Filled by any thread, emptied by the watch.
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
  double every_s = 0;       // at least so long from one answered frame to the next
  double change = 0;        // of the cell that has changed most, 0 to 1; frames that changed less are skipped
  int64_t deadline_ms = 0;  // from capture to the end of the answer; 0: none
  bool paused = false;
  // These make the engine anew:
  int32_t frames = 8;  // in memory, for questions
  int32_t kv_bits = 16;
  float keep = 1;  // share of the pictures' cache slots that stays

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
  static constexpr size_t kMostWaiting = 8;

  explicit WatchControl(WatchSettings settings) : settings_(std::move(settings)) {}

  WatchSettings settings() const;
  void set(const WatchSettings& settings);
  // The number of the question; nothing if as many as can are waiting already.
  std::optional<int64_t> ask(const std::string& text);
  // The next question, if there is one.
  std::optional<WatchQuestion> next_question();
  // Until anything is set or asked, or `wait` is over.
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

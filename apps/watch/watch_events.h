// WatchEvents: tells what happens in a watch, on the terminal and to a listener. Thread-safe.
#pragma once

#include <mutex>
#include <nlohmann/json.hpp>
#include <string>

#include "apps/watch/record.h"

namespace ocellus::app {

// Receives events: name and data as the page gets them. Called on several threads; must not block.
class WatchListener {
 public:
  virtual ~WatchListener() = default;
  virtual void tell(const char* event, const nlohmann::ordered_json& data) = 0;
};

class WatchEvents {
 public:
  // quiet: no notes on stderr; json: one line of JSON on stdout for each note, caption and answer.
  WatchEvents(bool quiet, bool json) : quiet_(quiet), json_(json) {}

  // May be null. Once it returns, the listener before is no longer called.
  void set_listener(WatchListener* listener);
  void tell(const char* event, const nlohmann::ordered_json& data);
  // `level`: "information", "warning" or "error".
  void note(const char* level, const std::string& text);
  void show(const Record& record);
  void show(const QuestionAnswer& answer);
  // The last line; only as JSON.
  void show_end(const nlohmann::ordered_json& state) const;

 private:
  void print_json(const char* kind, const nlohmann::ordered_json& data) const;

  const bool quiet_, json_;
  std::mutex mutex_;  // guards listener_, also while it is called
  WatchListener* listener_ = nullptr;
};

}  // namespace ocellus::app

// WatchHistory: the history folder of a watch, if it has one, and its trouble.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/watch/history_folder.h"
#include "apps/watch/watch_events.h"

namespace ocellus::app {

// Not thread-safe.
class WatchHistory {
 public:
  // `path`: empty for no folder. Throws HistoryFolder's Failures. `events` must outlive this object.
  WatchHistory(const std::string& path, int64_t quota_bytes, WatchEvents* events);

  // Notes on `events` when writing begins to fail, and when it succeeds again.
  void add(const Record& record, const std::vector<uint8_t>& thumbnail);
  // Null without a folder.
  nlohmann::ordered_json state() const;

 private:
  WatchEvents* events_;
  std::optional<HistoryFolder> folder_;
  std::string trouble_;
};

}  // namespace ocellus::app

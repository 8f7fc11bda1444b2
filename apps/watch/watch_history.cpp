#include "apps/watch/watch_history.h"

namespace ocellus::app {

WatchHistory::WatchHistory(const std::string& path, int64_t quota_bytes, WatchEvents* events) : events_(events) {
  if (!path.empty()) folder_.emplace(path, quota_bytes);
}

void WatchHistory::add(const Record& record, const std::vector<uint8_t>& thumbnail) {
  if (!folder_) return;
  const std::string trouble = folder_->add(record, thumbnail);
  if (!trouble.empty() && trouble_.empty()) events_->note("warning", trouble + ".");
  if (trouble.empty() && !trouble_.empty()) events_->note("information", "The history is written to disk again.");
  trouble_ = trouble;
}

nlohmann::ordered_json WatchHistory::state() const {
  if (!folder_) return nullptr;
  return {{"bytes", folder_->bytes()}, {"trouble", trouble_}};
}

}  // namespace ocellus::app

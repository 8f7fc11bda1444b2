#include "apps/watch/watch_log.h"

#include <algorithm>
#include <utility>

namespace ocellus::app {

void WatchLog::add(Record record, std::vector<uint8_t> thumbnail) {
  const std::lock_guard lock(mutex_);
  record.has_thumbnail = !thumbnail.empty();
  records_.push_back({std::move(record), std::move(thumbnail)});
  if (records_.size() > kMaxRecords) records_.pop_front();
}

void WatchLog::add(QuestionAnswer answer) {
  const std::lock_guard lock(mutex_);
  answers_.push_back(std::move(answer));
  if (answers_.size() > kMaxAnswers) answers_.pop_front();
}

std::vector<Record> WatchLog::records(int64_t before, size_t count) const {
  const std::lock_guard lock(mutex_);
  std::vector<Record> found;
  for (auto kept = records_.rbegin(); kept != records_.rend() && found.size() < count; ++kept) {
    if (before == 0 || kept->record.id < before) found.push_back(kept->record);
  }
  return found;
}

std::vector<QuestionAnswer> WatchLog::answers(size_t count) const {
  const std::lock_guard lock(mutex_);
  const auto most = static_cast<std::ptrdiff_t>(std::min(count, answers_.size()));
  return std::vector<QuestionAnswer>(answers_.rbegin(), answers_.rbegin() + most);
}

const WatchLog::Kept* WatchLog::find_kept(int64_t id) const {
  const auto found = std::lower_bound(records_.begin(), records_.end(), id,
                                      [](const Kept& kept, int64_t wanted) { return kept.record.id < wanted; });
  return found != records_.end() && found->record.id == id ? &*found : nullptr;
}

std::vector<uint8_t> WatchLog::thumbnail(int64_t id) const {
  const std::lock_guard lock(mutex_);
  const Kept* kept = find_kept(id);
  return kept != nullptr ? kept->thumbnail : std::vector<uint8_t>();
}

bool WatchLog::find(int64_t id, Record* record) const {
  const std::lock_guard lock(mutex_);
  const Kept* kept = find_kept(id);
  if (kept != nullptr) *record = kept->record;
  return kept != nullptr;
}

}  // namespace ocellus::app

// Captions and small pictures on disk: captions.jsonl and ID.jpg, within a quota.
#ifndef OCELLUS_APPS_WATCH_HISTORY_FOLDER_H_
#define OCELLUS_APPS_WATCH_HISTORY_FOLDER_H_

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "apps/watch/record.h"

namespace ocellus::app {

// One thread at a time. Pictures of earlier runs count, and go first. Lines take at most half of the quota: when a file
// has a quarter of it, it becomes captions.old.jsonl, and what had that name is gone.
class HistoryFolder {
 public:
  // Makes the folder if it is missing; throws a Failure if it cannot be written to. `quota_bytes`: at least 1 MiB.
  HistoryFolder(const std::string& path, int64_t quota_bytes);

  // The sentence that says why nothing could be written (a full disk), "" when all went well. Nothing half written is
  // left, and the next call tries again.
  std::string add(const Record& record, const std::vector<uint8_t>& thumbnail);
  int64_t bytes() const { return line_bytes_ + old_line_bytes_ + picture_bytes_; }

 private:
  struct KeptPicture {
    std::string name;
    int64_t bytes;
  };
  void find_earlier();
  void make_room(int64_t bytes);
  std::string write_picture(const std::string& name, const std::vector<uint8_t>& jpeg);
  std::string write_line(const std::string& line);

  std::string path_;
  int64_t quota_bytes_;
  std::string run_;  // begins the names of this run's pictures, so that they sort by time
  std::deque<KeptPicture> pictures_;
  int64_t picture_bytes_ = 0;
  int64_t line_bytes_ = 0, old_line_bytes_ = 0;
};

}  // namespace ocellus::app

#endif  // OCELLUS_APPS_WATCH_HISTORY_FOLDER_H_

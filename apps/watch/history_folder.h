// Captions and small pictures on disk: captions.jsonl and TIME-NUMBER.jpg, within a quota.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "apps/watch/record.h"

namespace ocellus::app {

// A descriptor that is closed with its owner; -1: none.
class OwnedDescriptor {
 public:
  explicit OwnedDescriptor(int descriptor = -1) : descriptor_(descriptor) {}
  ~OwnedDescriptor();
  OwnedDescriptor(OwnedDescriptor&& other) noexcept : descriptor_(other.descriptor_) { other.descriptor_ = -1; }
  OwnedDescriptor& operator=(OwnedDescriptor&& other) noexcept;
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

// Not thread-safe. A folder belongs to a history once it holds the file kHistoryMark; only an empty one, or one that an
// earlier version wrote and that holds nothing else, gets it. Only regular files whose names are exactly of the forms
// above are counted or removed. Pictures of earlier runs count, and are removed first. Lines take at most half of the
// quota: when a file has a quarter of it, it replaces captions.old.jsonl.
class HistoryFolder {
 public:
  // Creates the folder if it is missing, for its owner only; throws a Failure if it cannot be written to, is not a
  // history's own, or is in use by another watch. `quota_bytes`: at least 1 MiB.
  HistoryFolder(const std::string& path, int64_t quota_bytes);

  // Returns why nothing could be written (a full disk), "" on success. Leaves nothing half written; the next call tries
  // again.
  std::string add(const Record& record, const std::vector<uint8_t>& thumbnail);
  // Bytes on disk, in whole blocks.
  int64_t bytes() const { return mark_bytes_ + line_bytes_ + old_line_bytes_ + picture_bytes_; }

 private:
  struct KeptPicture {
    std::string name;
    int64_t bytes;
  };
  void claim();
  void find_earlier();
  std::string return_to_folder();
  std::string make_room(int64_t bytes);
  std::string write_picture(const std::string& name, const std::vector<uint8_t>& jpeg);
  std::string write_line(const std::string& line);
  std::string trouble() const;

  std::string path_;
  int64_t quota_bytes_;
  OwnedDescriptor folder_, mark_;  // the mark is locked while it is open
  int64_t block_bytes_ = 4096;
  std::string run_;  // prefix of this run's picture names, so that they sort by time
  std::deque<KeptPicture> pictures_;
  int64_t picture_bytes_ = 0, mark_bytes_ = 0;
  int64_t line_bytes_ = 0, old_line_bytes_ = 0;
};

inline constexpr char kHistoryMark[] = ".ocellus-history";

}  // namespace ocellus::app

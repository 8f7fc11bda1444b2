// DayFrames: a camera's frames in an image library, by their capture times.
//
// The library is their only store: a frame is an entry of the owner with a tag "at-MILLISECONDS" and its caption. A
// small picture of it lies in the folder "previews" beside the entries.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "apps/day/time_words.h"
#include "apps/setup/setup.h"

namespace ocellus::app {

// Frames that are linked into one prompt unless a number is given.
inline constexpr int32_t kLinkedFrames = 4;
// Owner of a camera's frames unless one is named.
inline constexpr char kCameraOwner[] = "camera";

struct DayFrame {
  int64_t at_ms = 0;     // capture time, since 1970
  std::string key = {};  // name of its entry; frames with equal pixels share one
  std::string caption = {};
  int64_t bytes = 0;       // size of its entry and preview
  int32_t bits = 16;       // bits of its keys and values
  int32_t input_rows = 0;  // rows of it that are computed in place
};

// The frame that goes first where a quota is full.
enum class DayRule {
  kOldest,
  kRedundant,  // one with the caption of the frame before it, else any; of these the one whose neighbours are nearest
               // in time
};

struct DayQuota {
  int64_t bytes = 0;   // all frames together, and the library's catalogue; 0: no limit
  int64_t age_ms = 0;  // against the newest frame; 0: no limit
  DayRule rule = DayRule::kRedundant;
};

struct DayUse {
  size_t frames = 0;
  int64_t bytes = 0;                     // as in DayQuota
  int64_t oldest_ms = 0, newest_ms = 0;  // 0: there is none
};

// Thread-safe.
class DayFrames {
 public:
  // Reads the owner's frames of the library in this folder; throws a Failure.
  DayFrames(Library library, const std::string& folder, const std::string& owner, const DayQuota& quota);
  DayFrames(const DayFrames&) = delete;
  DayFrames& operator=(const DayFrames&) = delete;

  // Makes a frame of the entry `coming.key`, which a session has stored or found, with this time and caption, and
  // removes others to stay within the quota. `preview`: a JPEG file; may be empty. Throws a Failure.
  void add(const DayFrame& coming, const std::vector<uint8_t>& preview);
  // Removes the frames of a span, or all, and others with the same pixels; returns their number. Throws a Failure.
  int32_t forget(const std::optional<TimeSpan>& span);

  // Frames by time: all, or those of a span and the one before it, which shows what was there when it began.
  std::vector<DayFrame> list(const std::optional<TimeSpan>& span = {}) const;
  // Newest first, at most `count`, before a time (0: no limit), with all of these words in their captions.
  std::vector<DayFrame> find(int64_t before_ms, const std::string& words, size_t count) const;
  // A JPEG file; empty if there is none.
  std::vector<uint8_t> preview(const std::string& key) const;
  DayUse use() const;
  const DayQuota& quota() const { return quota_; }

 private:
  int64_t preview_bytes(const std::string& key) const;
  void insert(DayFrame frame);
  void make_room(const DayFrame& coming, int64_t bytes);
  size_t choose(const DayFrame& coming) const;
  void drop(size_t index, const std::string& kept_key);
  void remove_entry(const std::string& key);
  int64_t sum_bytes() const;
  int64_t other_bytes() const;
  std::string preview_path(const std::string& key) const;

  const std::string folder_, owner_;
  const DayQuota quota_;
  Library library_;
  mutable std::mutex mutex_;  // guards frames_
  std::vector<DayFrame> frames_;
};

}  // namespace ocellus::app

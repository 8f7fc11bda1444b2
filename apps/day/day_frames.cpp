#include "apps/day/day_frames.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <tuple>

#include "apps/base/failure.h"
#include "apps/base/partial_file.h"
#include "apps/base/plain_text.h"
#include "apps/base/sizes.h"

namespace ocellus::app {
namespace {

constexpr std::string_view kTimeTag = "at-";

std::string time_tag(int64_t at_ms) { return std::string(kTimeTag) + std::to_string(at_ms); }

std::optional<int64_t> tagged_time(std::string_view tag) {
  if (!tag.starts_with(kTimeTag)) return std::nullopt;
  tag.remove_prefix(kTimeTag.size());
  int64_t at_ms = 0;
  const auto [end, error] = std::from_chars(tag.data(), tag.data() + tag.size(), at_ms);
  return error == std::errc() && end == tag.data() + tag.size() ? std::optional(at_ms) : std::nullopt;
}

bool is_earlier(const DayFrame& a, const DayFrame& b) { return a.at_ms < b.at_ms; }

DayFrame make_frame(const ocellus_library_item& item, int64_t at_ms, const std::string& caption,
                    int64_t preview_bytes) {
  return {.at_ms = at_ms,
          .key = item.key,
          .caption = caption,
          .bytes = item.bytes + preview_bytes,
          .bits = item.bits,
          .input_rows = item.input_rows};
}

// Labels of an entry: its tags, and in place of the oldest beyond the bound another time.
struct FrameLabels {
  FrameLabels(const ocellus_library_item& item, const DayFrame& frame, int64_t age_ms) : time(time_tag(frame.at_ms)) {
    for (int32_t i = 0; i < item.tag_count; ++i) tags.push_back(item.tags[i]);
    if (tags.size() == OCELLUS_MOST_TAGS) tags.erase(tags.begin());
    tags.push_back(time.c_str());
    keep.tags = tags.data();
    keep.tag_count = static_cast<int32_t>(tags.size());
    keep.caption = frame.caption.c_str();
    keep.pinned = item.pinned;
    if (age_ms > 0) keep.expires = std::time(nullptr) + age_ms / 1000;
  }
  FrameLabels(const FrameLabels&) = delete;
  FrameLabels& operator=(const FrameLabels&) = delete;

  ocellus_library_keep keep = library_keep();
  std::string time;
  std::vector<const char*> tags;
};

}  // namespace

DayFrames::DayFrames(Library library, const std::string& folder, const std::string& owner, const DayQuota& quota)
    : folder_(folder), owner_(owner), quota_(quota), library_(std::move(library)) {
  for (const ocellus_library_item& item : list_items(library_, owner_)) {
    for (int32_t i = 0; i < item.tag_count; ++i) {
      const auto at_ms = tagged_time(item.tags[i]);
      if (at_ms) insert(make_frame(item, *at_ms, item.caption, preview_bytes(item.key)));
    }
  }
}

std::string DayFrames::preview_path(const std::string& key) const { return folder_ + "/previews/" + key + ".jpg"; }

int64_t DayFrames::preview_bytes(const std::string& key) const {
  struct stat facts = {};
  return stat(preview_path(key).c_str(), &facts) == 0 && S_ISREG(facts.st_mode) ? int64_t{facts.st_size} : 0;
}

void DayFrames::insert(DayFrame frame) {
  frames_.insert(std::upper_bound(frames_.begin(), frames_.end(), frame, is_earlier), std::move(frame));
}

void DayFrames::add(const DayFrame& coming, const std::vector<uint8_t>& preview) {
  const std::lock_guard lock(mutex_);
  ocellus_library_item item;
  if (!take(library_.describe_entry(owner_.c_str(), coming.key.c_str(), item), folder_))
    throw Failure(kExitRuntime, folder_ + ": the frame's entry was removed at once.");
  const bool is_new = item.tag_count == 0;
  DayFrame frame = make_frame(item, coming.at_ms, coming.caption, std::ssize(preview));
  if (quota_.bytes > 0 && frame.bytes + other_bytes() > quota_.bytes) {
    if (is_new) remove_entry(frame.key);
    throw Failure(kExitOverBudget, "a frame and the library's catalogue take more than the " +
                                       format_count(quota_.bytes, "byte") + " of --library-size.");
  }
  make_room(frame, is_new ? frame.bytes : 0);
  const FrameLabels labels(item, frame, quota_.age_ms);
  if (!take(library_.relabel(owner_.c_str(), frame.key.c_str(), labels.keep), folder_))
    throw Failure(kExitRuntime, folder_ + ": the frame's entry was removed at once.");
  if (is_new && !preview.empty()) {
    mkdir((folder_ + "/previews").c_str(), 0700);  // if that fails the file reports why
    PartialFile file(preview_path(frame.key));
    if (file.error() == 0 && file.append(preview.data(), std::ssize(preview))) file.finish();
    if (file.error() == 0) std::rename(file.temporary().c_str(), file.path().c_str());
  }
  make_room(frame, is_new ? frame.bytes : 0);  // the catalogue may have grown
  insert(std::move(frame));
}

// The catalogue, and all else in the folder but entries and previews.
int64_t DayFrames::other_bytes() const {
  namespace fs = std::filesystem;
  int64_t sum = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder_, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename();
    std::error_code unknown;  // a file that was removed meanwhile
    if (at.depth() == 0 && (name == "entries" || name == "previews")) at.disable_recursion_pending();
    if (at->is_regular_file(unknown) && !at->is_symlink(unknown)) {
      const auto bytes = at->file_size(unknown);
      sum += unknown ? 0 : static_cast<int64_t>(bytes);
    }
  }
  return sum;
}

int64_t DayFrames::sum_bytes() const {
  std::map<std::string_view, int64_t> entries;
  for (const DayFrame& frame : frames_) entries[frame.key] = frame.bytes;
  int64_t sum = 0;
  for (const auto& [key, bytes] : entries) sum += bytes;
  return sum;
}

void DayFrames::make_room(const DayFrame& coming, int64_t bytes) {
  while (quota_.age_ms > 0 && !frames_.empty() && frames_.front().at_ms < coming.at_ms - quota_.age_ms)
    drop(0, coming.key);
  if (quota_.bytes == 0) return;
  // To remove an entry the catalogue may grow, too.
  while (!frames_.empty() && sum_bytes() + bytes + other_bytes() > quota_.bytes) drop(choose(coming), coming.key);
}

// Returns the frame to remove before another comes.
size_t DayFrames::choose(const DayFrame& coming) const {
  if (quota_.rule == DayRule::kOldest) return 0;
  const auto cost = [&](size_t i) {
    const bool is_told = frames_[i].caption == frames_[i - 1].caption;
    const int64_t after_ms = i + 1 < frames_.size() ? frames_[i + 1].at_ms : coming.at_ms;
    return std::tuple(is_told ? 0 : 1, after_ms - frames_[i - 1].at_ms);
  };
  size_t chosen = frames_.size() > 1 ? 1 : 0;
  for (size_t i = 2; i < frames_.size(); ++i) {
    if (cost(i) < cost(chosen)) chosen = i;
  }
  return chosen;
}

// Removes a frame, and with the last of them its entry, unless another frame of it comes.
void DayFrames::drop(size_t index, const std::string& kept_key) {
  const std::string key = frames_[index].key;
  const auto shares = [&](const DayFrame& frame) { return frame.key == key; };
  if (key != kept_key && std::count_if(frames_.begin(), frames_.end(), shares) == 1) remove_entry(key);
  frames_.erase(frames_.begin() + static_cast<ptrdiff_t>(index));
}

void DayFrames::remove_entry(const std::string& key) {
  (void)take(library_.remove(owner_.c_str(), key.c_str()), folder_);
  unlink(preview_path(key).c_str());
}

int32_t DayFrames::forget(const std::optional<TimeSpan>& span) {
  const std::lock_guard lock(mutex_);
  std::set<std::string> keys;
  for (const DayFrame& frame : frames_) {
    if (!span || (frame.at_ms >= span->begin_ms && frame.at_ms < span->end_ms)) keys.insert(frame.key);
  }
  for (const std::string& key : keys) remove_entry(key);
  const auto is_gone = [&](const DayFrame& frame) { return keys.contains(frame.key); };
  return static_cast<int32_t>(std::erase_if(frames_, is_gone));
}

std::vector<DayFrame> DayFrames::list(const std::optional<TimeSpan>& span) const {
  const std::lock_guard lock(mutex_);
  if (!span) return frames_;
  auto begin = std::upper_bound(frames_.begin(), frames_.end(), DayFrame{.at_ms = span->begin_ms}, is_earlier);
  const auto end = std::lower_bound(begin, frames_.end(), DayFrame{.at_ms = span->end_ms}, is_earlier);
  if (begin != frames_.begin()) --begin;
  return {begin, end};
}

std::vector<DayFrame> DayFrames::find(int64_t before_ms, const std::string& words, size_t count) const {
  std::vector<std::string> wanted;
  std::string rest = trim(to_lower(words));
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(' '), rest.size());
    wanted.push_back(rest.substr(0, end));
    rest = trim(rest.substr(end));
  }
  std::vector<DayFrame> found;
  const std::lock_guard lock(mutex_);
  for (size_t i = frames_.size(); i-- > 0 && found.size() < count;) {
    const DayFrame& frame = frames_[i];
    if (before_ms > 0 && frame.at_ms >= before_ms) continue;
    const std::string caption = to_lower(frame.caption);
    const auto is_in = [&](const std::string& word) { return caption.find(word) != std::string::npos; };
    if (std::all_of(wanted.begin(), wanted.end(), is_in)) found.push_back(frame);
  }
  return found;
}

std::vector<uint8_t> DayFrames::preview(const std::string& key) const {
  const bool is_key = key.size() == 32 && key.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!is_key || preview_bytes(key) == 0) return {};  // reading a folder throws
  std::ifstream file(preview_path(key), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

DayUse DayFrames::use() const {
  const std::lock_guard lock(mutex_);
  if (frames_.empty()) return {.bytes = other_bytes()};
  return {frames_.size(), sum_bytes() + other_bytes(), frames_.front().at_ms, frames_.back().at_ms};
}

}  // namespace ocellus::app

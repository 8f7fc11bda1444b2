#include "apps/watch/history_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <string_view>
#include <tuple>

#include "apps/base/bounded_json.h"
#include "apps/base/failure.h"
#include "apps/setup/answer.h"

namespace ocellus::app {
namespace {

constexpr char kLines[] = "captions.jsonl";
constexpr char kOldLines[] = "captions.old.jsonl";
constexpr char kUnfinished[] = ".unfinished";  // suffix of a picture's name; alone in versions without a mark
constexpr char kUnfinishedEnding[] = ".jpg.unfinished";
constexpr std::string_view kPictureForm = "ddddddddTddddddZ-ddddddddd";  // more digits and the suffix follow
constexpr std::string_view kPictureEnding = ".jpg";
constexpr mode_t kFolderMode = 0700, kFileMode = 0600;
constexpr char kMarkText[] =
    "`ocellus watch --history` keeps captions and pictures in this folder, and removes the oldest.\n";

// Bytes of the file on disk.
int64_t disk_bytes(const struct stat& facts) {
  return std::max<int64_t>(int64_t{facts.st_blocks} * 512, facts.st_size);
}

// Reads the facts of the entry itself; false for anything but a regular file.
bool is_regular(int folder, const char* name, struct stat* facts) {
  return fstatat(folder, name, facts, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(facts->st_mode);
}

int64_t regular_bytes(int folder, const char* name) {
  struct stat facts;
  return is_regular(folder, name, &facts) ? disk_bytes(facts) : 0;
}

// True if the name is that of one of our pictures, with `ending`.
bool is_picture_name(std::string_view name, std::string_view ending = kPictureEnding) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto fits = [&](char form, char c) { return form == 'd' ? is_digit(c) : c == form; };
  if (name.size() < kPictureForm.size() + ending.size()) return false;
  const size_t end = name.size() - ending.size();
  return name.substr(end) == ending && std::equal(kPictureForm.begin(), kPictureForm.end(), name.begin(), fits) &&
         std::all_of(name.begin() + kPictureForm.size(), name.begin() + static_cast<ptrdiff_t>(end), is_digit);
}

// Writes all bytes, or returns false.
bool write_all(int file, const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t done = write(file, at, bytes);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    at += done;
    bytes -= static_cast<size_t>(done);
  }
  return true;
}

std::string name_of(std::time_t time) {
  std::tm utc = {};
  gmtime_r(&time, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &utc);
  return text;
}

// Lists the folder, or returns false with errno.
bool list(int folder, std::vector<std::string>* names) {
  DIR* entries = fdopendir(openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (entries == nullptr) return false;
  errno = 0;
  while (const dirent* entry = readdir(entries)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names->push_back(name);
  }
  const int error = errno;
  closedir(entries);
  errno = error;
  std::sort(names->begin(), names->end());
  return error == 0;
}

// True if the file begins with a line that this class has written.
bool holds_captions(int folder) {
  const OwnedDescriptor file(openat(folder, kLines, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  std::string line(size_t{64} << 10, ' ');
  const ssize_t read_bytes = read(file.get(), line.data(), line.size());
  line.resize(read_bytes > 0 ? static_cast<size_t>(read_bytes) : 0);
  line.resize(std::min(line.find('\n'), line.size()));
  const auto object = read_json(line, kLocalJson);
  return object.is_object() && object.contains("capture_ns") && object.contains("thumbnail");
}

// Returns the first entry that keeps the folder from being used where there is no mark; "" if there is none.
std::string find_foreign(int folder, const std::vector<std::string>& names) {
  const bool is_ours = holds_captions(folder);
  for (const std::string& name : names) {
    const bool is_form = name == kLines || name == kOldLines || name == kUnfinished || is_picture_name(name);
    struct stat facts;
    if (!is_ours || !is_form || !is_regular(folder, name.c_str(), &facts)) return name;
  }
  return "";
}

}  // namespace

OwnedDescriptor::~OwnedDescriptor() {
  if (descriptor_ >= 0) close(descriptor_);
}

OwnedDescriptor& OwnedDescriptor::operator=(OwnedDescriptor&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

HistoryFolder::HistoryFolder(const std::string& path, int64_t quota_bytes) : path_(path), quota_bytes_(quota_bytes) {
  if (mkdir(path.c_str(), kFolderMode) == 0) {
    chmod(path.c_str(), kFolderMode);  // independent of the umask
  } else if (errno != EEXIST) {
    throw Failure(kExitUsage, "--history " + path + ": the folder cannot be made: " + std::strerror(errno) + ".");
  }
  claim();
}

void HistoryFolder::claim() {
  const auto refuse = [this](const std::string& why) { throw Failure(kExitUsage, "--history " + path_ + ": " + why); };
  folder_ = OwnedDescriptor(open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder_.get() < 0 && errno == ENOTDIR) refuse("this is no folder.");
  if (folder_.get() < 0) refuse(std::string("the folder cannot be opened: ") + std::strerror(errno) + ".");
  std::vector<std::string> names;
  if (!list(folder_.get(), &names)) refuse(std::string("the folder cannot be read: ") + std::strerror(errno) + ".");
  struct stat facts;
  const bool has_mark = fstatat(folder_.get(), kHistoryMark, &facts, AT_SYMLINK_NOFOLLOW) == 0;
  if (has_mark && !S_ISREG(facts.st_mode)) refuse(std::string("its ") + kHistoryMark + " is no regular file.");
  if (!has_mark) {
    const std::string foreign = find_foreign(folder_.get(), names);
    if (!foreign.empty()) {
      refuse("it holds " + foreign +
             " and was not made by watch, which removes old files: name a new or empty folder.");
    }
  }
  for (const char* name : {kLines, kOldLines}) {
    if (fstatat(folder_.get(), name, &facts, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISREG(facts.st_mode)) {
      refuse(std::string("its ") + name + " is no regular file.");
    }
  }
  constexpr int kHow = O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  mark_ = OwnedDescriptor(openat(folder_.get(), kHistoryMark, kHow, kFileMode));
  if (mark_.get() < 0) refuse(std::string("the folder cannot be written to: ") + std::strerror(errno) + ".");
  // A file system without locks cannot detect a second watch.
  if (flock(mark_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    refuse("another watch keeps its history there.");
  if (!has_mark) {
    fchmod(folder_.get(), kFolderMode);  // its owner may change this later
    fchmod(mark_.get(), kFileMode);
    write_all(mark_.get(), kMarkText, sizeof kMarkText - 1);  // the text is for readers: the file name alone is the
                                                              // mark
  }
  find_earlier();
}

void HistoryFolder::find_earlier() {
  std::vector<std::string> names;
  list(folder_.get(), &names);
  struct statvfs system;
  if (fstatvfs(folder_.get(), &system) == 0) block_bytes_ = static_cast<int64_t>(system.f_frsize);
  line_bytes_ = regular_bytes(folder_.get(), kLines);
  old_line_bytes_ = regular_bytes(folder_.get(), kOldLines);
  mark_bytes_ = regular_bytes(folder_.get(), kHistoryMark);
  pictures_.clear();
  picture_bytes_ = 0;
  for (const std::string& name : names) {
    struct stat facts;
    if (!is_regular(folder_.get(), name.c_str(), &facts)) continue;
    if (is_picture_name(name, kUnfinishedEnding)) unlinkat(folder_.get(), name.c_str(), 0);
    if (!is_picture_name(name)) continue;
    pictures_.push_back({name, disk_bytes(facts)});
    picture_bytes_ += pictures_.back().bytes;
  }
  const auto is_older = [](const KeptPicture& a, const KeptPicture& b) {
    const int runs = a.name.compare(0, kPictureForm.find('-'), b.name, 0, kPictureForm.find('-'));
    return std::tuple(runs, a.name.size(), a.name) < std::tuple(0, b.name.size(), b.name);
  };
  std::sort(pictures_.begin(), pictures_.end(), is_older);
  // Makes names unique for two runs within a second, or after the clock was set back.
  std::time_t time = std::time(nullptr);
  const auto is_taken = [this](const KeptPicture& picture) { return picture.name.compare(0, run_.size(), run_) == 0; };
  do {
    run_ = name_of(time++);
  } while (std::any_of(pictures_.begin(), pictures_.end(), is_taken));
}

std::string HistoryFolder::trouble() const {
  return "nothing can be written to " + path_ + ": " + std::strerror(errno) + "; the history continues in memory";
}

// Opens a folder that was removed, or mounted over, again by its name.
std::string HistoryFolder::return_to_folder() {
  struct stat here, held;
  if (stat(path_.c_str(), &here) != 0) return trouble();
  if (folder_.get() >= 0 && fstat(folder_.get(), &held) == 0 && here.st_dev == held.st_dev &&
      here.st_ino == held.st_ino)
    return "";
  try {
    mark_ = OwnedDescriptor();
    claim();
  } catch (const Failure& failure) {
    folder_ = OwnedDescriptor();
    std::string sentence = failure.what();
    sentence.pop_back();
    return sentence + "; the history continues in memory";
  }
  return "";
}

// Removes pictures only; a foreign file in place of one stays and no longer counts.
std::string HistoryFolder::make_room(int64_t bytes_to_come) {
  while (!pictures_.empty() && bytes() + bytes_to_come > quota_bytes_) {
    const KeptPicture& oldest = pictures_.front();
    struct stat facts;
    if (is_regular(folder_.get(), oldest.name.c_str(), &facts) &&
        unlinkat(folder_.get(), oldest.name.c_str(), 0) != 0 && errno != ENOENT) {
      return trouble();
    }
    picture_bytes_ -= oldest.bytes;
    pictures_.pop_front();
  }
  return "";
}

std::string HistoryFolder::write_picture(const std::string& name, const std::vector<uint8_t>& jpeg) {
  const std::string unfinished = name + kUnfinished;
  constexpr int kHow = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  const int file = openat(folder_.get(), unfinished.c_str(), kHow, kFileMode);
  if (file < 0) return trouble();
  struct stat facts = {};
  const bool is_written =
      fchmod(file, kFileMode) == 0 && write_all(file, jpeg.data(), jpeg.size()) && fstat(file, &facts) == 0;
  std::string sentence = is_written ? "" : trouble();
  if (close(file) != 0 && sentence.empty()) sentence = trouble();
  if (sentence.empty() && renameat(folder_.get(), unfinished.c_str(), folder_.get(), name.c_str()) != 0)
    sentence = trouble();
  if (!sentence.empty()) {
    unlinkat(folder_.get(), unfinished.c_str(), 0);
    return sentence;
  }
  pictures_.push_back({name, disk_bytes(facts)});
  picture_bytes_ += pictures_.back().bytes;
  return "";
}

std::string HistoryFolder::write_line(const std::string& line) {
  if (line_bytes_ + static_cast<int64_t>(line.size()) > quota_bytes_ / 4) {
    if (renameat(folder_.get(), kLines, folder_.get(), kOldLines) != 0 && errno != ENOENT) return trouble();
    old_line_bytes_ = line_bytes_;
    line_bytes_ = 0;
  }
  constexpr int kHow = O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  const int file = openat(folder_.get(), kLines, kHow, kFileMode);
  if (file < 0) return trouble();
  struct stat facts = {};
  fstat(file, &facts);
  const int64_t whole_bytes = facts.st_size;
  if (whole_bytes == 0) fchmod(file, kFileMode);
  std::string sentence;
  if (!write_all(file, line.data(), line.size())) {
    sentence = trouble();
    if (ftruncate(file, whole_bytes) != 0) sentence = trouble();  // leaves no half line
  }
  if (fstat(file, &facts) == 0) line_bytes_ = disk_bytes(facts);
  if (close(file) != 0 && sentence.empty()) sentence = trouble();
  return sentence;
}

std::string HistoryFolder::add(const Record& record, const std::vector<uint8_t>& thumbnail) {
  nlohmann::ordered_json object = record_json(record);
  object["thumbnail"] = "";
  std::string sentence = return_to_folder();
  if (!sentence.empty()) return sentence;
  if (!thumbnail.empty()) {
    char number[24];
    std::snprintf(number, sizeof number, "-%09lld.jpg", static_cast<long long>(record.id));
    const std::string name = run_ + number;
    const auto bytes = static_cast<int64_t>(thumbnail.size());
    sentence = make_room((bytes / block_bytes_ + 1) * block_bytes_);
    if (sentence.empty()) sentence = write_picture(name, thumbnail);
    if (sentence.empty()) object["thumbnail"] = name;
  }
  const std::string line_sentence = write_line(json_line(object));
  if (sentence.empty()) sentence = line_sentence;
  const std::string room_sentence = make_room(0);  // includes the new line, and blocks beyond the expected ones
  return sentence.empty() ? room_sentence : sentence;
}

}  // namespace ocellus::app

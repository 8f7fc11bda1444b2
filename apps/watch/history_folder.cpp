#include "apps/watch/history_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "apps/answer.h"
#include "apps/failure.h"

namespace ocellus::app {
namespace {

constexpr char kLines[] = "captions.jsonl";
constexpr char kOldLines[] = "captions.old.jsonl";
constexpr char kUnfinished[] = ".unfinished";

int64_t file_bytes(const std::string& path) {
  struct stat facts;
  return stat(path.c_str(), &facts) == 0 ? facts.st_size : 0;
}

std::string system_sentence(const std::string& path) {
  return "nothing can be written to " + path + ": " + std::strerror(errno) + "; the history goes on in memory";
}

// All of it, or false.
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

std::string name_of_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc = {};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &utc);
  return text;
}

}  // namespace

HistoryFolder::HistoryFolder(const std::string& path, int64_t quota_bytes)
    : path_(path), quota_bytes_(quota_bytes), run_(name_of_now()) {
  if (mkdir(path.c_str(), 0777) != 0 && errno != EEXIST) {
    throw Failure(kExitUsage, "--history " + path + ": the folder cannot be made: " + std::strerror(errno) + ".");
  }
  struct stat facts;
  if (stat(path.c_str(), &facts) != 0 || !S_ISDIR(facts.st_mode)) {
    throw Failure(kExitUsage, "--history " + path + ": this is no folder.");
  }
  if (access(path.c_str(), W_OK | X_OK) != 0) {
    throw Failure(kExitUsage, "--history " + path + ": the folder cannot be written to.");
  }
  unlink((path_ + "/" + kUnfinished).c_str());
  find_earlier();
}

void HistoryFolder::find_earlier() {
  line_bytes_ = file_bytes(path_ + "/" + kLines);
  old_line_bytes_ = file_bytes(path_ + "/" + kOldLines);
  DIR* folder = opendir(path_.c_str());
  if (folder == nullptr) return;
  while (const dirent* entry = readdir(folder)) {
    const std::string name = entry->d_name;
    if (name.size() < 5 || name.compare(name.size() - 4, 4, ".jpg") != 0) continue;
    pictures_.push_back({name, file_bytes(path_ + "/" + name)});
    picture_bytes_ += pictures_.back().bytes;
  }
  closedir(folder);
  std::sort(pictures_.begin(), pictures_.end(),
            [](const KeptPicture& a, const KeptPicture& b) { return a.name < b.name; });
}

void HistoryFolder::make_room(int64_t bytes_to_come) {
  while (!pictures_.empty() && bytes() + bytes_to_come > quota_bytes_) {
    unlink((path_ + "/" + pictures_.front().name).c_str());
    picture_bytes_ -= pictures_.front().bytes;
    pictures_.pop_front();
  }
}

std::string HistoryFolder::write_picture(const std::string& name, const std::vector<uint8_t>& jpeg) {
  const std::string unfinished = path_ + "/" + kUnfinished;
  const int file = open(unfinished.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) return system_sentence(path_);
  const bool is_written = write_all(file, jpeg.data(), jpeg.size());
  std::string trouble = is_written ? "" : system_sentence(path_);
  if (close(file) != 0 && trouble.empty()) trouble = system_sentence(path_);
  if (trouble.empty() && rename(unfinished.c_str(), (path_ + "/" + name).c_str()) != 0)
    trouble = system_sentence(path_);
  if (!trouble.empty()) {
    unlink(unfinished.c_str());
    return trouble;
  }
  pictures_.push_back({name, static_cast<int64_t>(jpeg.size())});
  picture_bytes_ += pictures_.back().bytes;
  return "";
}

std::string HistoryFolder::write_line(const std::string& line) {
  const std::string path = path_ + "/" + kLines;
  if (line_bytes_ + static_cast<int64_t>(line.size()) > quota_bytes_ / 4) {
    if (rename(path.c_str(), (path_ + "/" + kOldLines).c_str()) == 0) {
      old_line_bytes_ = line_bytes_;
      line_bytes_ = 0;
    }
  }
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file < 0) return system_sentence(path_);
  std::string trouble;
  if (write_all(file, line.data(), line.size())) {
    line_bytes_ += static_cast<int64_t>(line.size());
  } else {
    trouble = system_sentence(path_);
    if (ftruncate(file, line_bytes_) != 0) line_bytes_ = file_bytes(path);  // no half line stays
  }
  if (close(file) != 0 && trouble.empty()) trouble = system_sentence(path_);
  return trouble;
}

std::string HistoryFolder::add(const Record& record, const std::vector<uint8_t>& thumbnail) {
  nlohmann::ordered_json object = record_json(record);
  std::string trouble;
  object["thumbnail"] = "";
  if (!thumbnail.empty()) {
    char number[24];
    std::snprintf(number, sizeof number, "-%09lld.jpg", static_cast<long long>(record.id));
    const std::string name = run_ + number;
    make_room(static_cast<int64_t>(thumbnail.size()) + 4096);
    trouble = write_picture(name, thumbnail);
    if (trouble.empty()) object["thumbnail"] = name;
  }
  const std::string line_trouble = write_line(json_line(object));
  return trouble.empty() ? line_trouble : trouble;
}

}  // namespace ocellus::app

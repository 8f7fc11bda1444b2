#include "apps/camera/directory_source.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "apps/base/failure.h"
#include "apps/base/plain_text.h"
#include "apps/camera/picture_decode.h"
#include "apps/camera/sentences.h"

namespace ocellus::app {
namespace {

constexpr double kUsualRate = 1;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_picture_name(const std::string& name) {
  if (name.empty() || name[0] == '.') return false;
  const std::string ending = to_lower(std::filesystem::path(name).extension().string());
  return std::find(std::begin(kPictureEndings), std::end(kPictureEndings), ending) != std::end(kPictureEndings);
}

// Returns the number at *at without leading zeros and moves *at after it.
std::string take_number(const std::string& text, size_t* at) {
  while (*at < text.size() && text[*at] == '0') ++*at;
  const size_t begin = *at;
  while (*at < text.size() && is_digit(text[*at])) ++*at;
  return text.substr(begin, *at - begin);
}

}  // namespace

bool comes_before(const std::string& left, const std::string& right) {
  size_t i = 0, j = 0;
  while (i < left.size() && j < right.size()) {
    if (is_digit(left[i]) && is_digit(right[j])) {
      const std::string a = take_number(left, &i), b = take_number(right, &j);
      if (a.size() != b.size()) return a.size() < b.size();
      if (a != b) return a < b;
    } else {
      if (left[i] != right[j]) return static_cast<unsigned char>(left[i]) < static_cast<unsigned char>(right[j]);
      ++i;
      ++j;
    }
  }
  const bool left_over = i < left.size(), right_over = j < right.size();
  if (left_over != right_over) return right_over;
  return left < right;  // names that differ in zeros only
}

DirectorySource::DirectorySource(const SourceOptions& options)
    : path_(options.name),
      folder_(options.name),
      paced_(options.paced),
      loop_(options.loop),
      rate_(options.frames_per_second > 0 ? options.frames_per_second : kUsualRate),
      pacer_(rate_),
      depth_(options.depth) {
  refuse_stride(options, "a picture or a directory");
  struct stat facts;
  single_ = stat(path_.c_str(), &facts) == 0 && !S_ISDIR(facts.st_mode);
  if (single_) {
    folder_ = std::filesystem::path(path_).parent_path().string();
    names_ = {std::filesystem::path(path_).filename().string()};
  } else {
    list();
  }
  if (names_.empty()) {
    throw Failure(kExitBadInput,
                  path_ + ": the directory holds no pictures (.jpg, .png, .webp, .gif, .bmp, .heic or .avif).");
  }
}

void DirectorySource::list() {
  names_.clear();
  next_ = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder_, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (is_picture_name(name) && seen_.count(name) == 0) names_.push_back(name);
  }
  if (error) {
    throw Failure(kExitBadInput, path_ + ": the directory cannot be read: " + error.message() + ".");
  }
  std::sort(names_.begin(), names_.end(), comes_before);
}

// Ends a pass; returns true if there is a next one.
bool DirectorySource::start_again() {
  if (single_) {
    next_ = 0;
    if (!loop_) names_.clear();
  } else {
    list();
  }
  if (!shown_any_) pacer_.advance();  // a pass without a usable picture also takes a period
  shown_any_ = false;
  return loop_ || !names_.empty();
}

void DirectorySource::reopen() {
  if (!single_) list();
}

SourceEvent DirectorySource::next(Frame* frame, std::chrono::milliseconds wait) {
  if (next_ == names_.size()) {
    try {
      if (!start_again()) return {.kind = SourceEvent::kEnd};
    } catch (const Failure& failure) {
      return {.kind = SourceEvent::kLost, .what = failure.what()};
    }
  }
  if ((paced_ && !pacer_.wait_until_due(wait)) || next_ == names_.size()) return {.kind = SourceEvent::kTimeout};
  const std::string& name = names_[next_++];
  if (!loop_) seen_.insert(name);
  const std::string wrong = read_picture(name, frame);
  if (!wrong.empty()) return {.kind = SourceEvent::kBroken, .what = about(name, wrong)};
  pacer_.advance();
  shown_any_ = true;
  frame->sequence = ++sequence_;
  frame->captured_ns = monotonic_ns();
  frame->file_ns = sequence_ * pacer_.period_ns();
  return {.kind = SourceEvent::kFrame};
}

// Returns an empty text, or what is wrong with the file.
std::string DirectorySource::read_picture(const std::string& name, Frame* frame) const {
  const std::string path = folder_.empty() ? name : (std::filesystem::path(folder_) / name).string();
  const std::string wrong = read_picture_file(path, &frame->bytes);
  frame->truth.clear();
  frame->depth = depth_;
  return wrong.empty() ? finish_encoded(frame) : wrong;
}

std::string DirectorySource::describe() const {
  return std::string(single_ ? "one picture" : "pictures of a directory") + ", " + rate_text(rate_) + " a second" +
         (loop_ ? ", looped" : "");
}

}  // namespace ocellus::app

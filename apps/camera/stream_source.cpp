#include "apps/camera/stream_source.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "apps/base/failure.h"
#include "apps/base/printable_text.h"
#include "apps/camera/jpeg_repair.h"
#include "apps/camera/sentences.h"

namespace ocellus::app {
namespace {

constexpr size_t kInputBytes = 256 << 10;
constexpr size_t kSearchedBytes = 4 << 20;  // bytes in which a stream's first JPEG must begin
constexpr int kPipeBytes = 1 << 20;
constexpr size_t kSniffedBytes = 10;
constexpr double kUsualRate = 30;

int open_input(const std::string& name) {
  if (name == "-") return fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
  return open(name.c_str(),
              O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // non-blocking, so that a pipe may get its writer later
}

bool begins(const std::vector<uint8_t>& bytes, size_t count, const char* with) {
  const size_t length = std::strlen(with);
  return count >= length && std::memcmp(bytes.data(), with, length) == 0;
}

}  // namespace

StreamSource::StreamSource(const SourceOptions& options) : StreamSource(options, open_input(options.name)) {}

StreamSource::StreamSource(const SourceOptions& options, int descriptor)
    : options_(options), descriptor_(descriptor), pacer_(kUsualRate), input_(kInputBytes) {
  if (options_.name == "-") options_.name = "standard input";
  if (descriptor_ < 0) {
    throw file_failure(options_.name, "the source cannot be opened");
  }
  try {
    start();
  } catch (...) {
    close(descriptor_);
    throw;
  }
}

StreamSource::~StreamSource() { close(descriptor_); }

void StreamSource::start() {
  struct stat facts;
  is_file_ = fstat(descriptor_, &facts) == 0 && S_ISREG(facts.st_mode);
  const bool is_raw = !options_.format.empty() && options_.format != "mjpeg" && options_.format != "y4m";
  if (!is_raw) {
    refuse_stride(options_, "motion JPEG or Y4M");
    refuse_depth(options_, "motion JPEG or Y4M");
  }
  if (options_.format == "mjpeg") {
    parser_ = make_mjpeg_parser();
  } else if (options_.format == "y4m") {
    parser_ = make_y4m_parser(parse_color(options_.color));
  } else if (is_raw) {
    parser_ = make_raw_parser(options_);
  }
  if (!is_file_) {
    fcntl(descriptor_, F_SETPIPE_SZ, kPipeBytes);  // fewer switches between writer and reader, where allowed
    return;
  }
  file_begin_ = std::max<int64_t>(0, lseek(descriptor_, 0, SEEK_CUR));
  const std::string misfit = check_raw_file(options_, facts.st_size - file_begin_);
  if (!misfit.empty()) throw Failure(kExitBadInput, about(options_.name, misfit));
  // Checks a file's beginning at once.
  while (parser_ == nullptr || !parser_->is_ready()) {
    const Input input = read_more(0);
    std::string wrong = input == Input::kError ? std::string("The file cannot be read: ") + std::strerror(errno) + "."
                                               : choose_parser(input == Input::kEnd);
    if (wrong.empty() && parser_ != nullptr) {
      taken_ += parser_->take(input_.data() + taken_, held_ - taken_);
      Frame none;
      if (!parser_->is_ready()) wrong = parser_->next(&none).what;
      if (wrong.empty() && !parser_->is_ready() && input == Input::kEnd) wrong = "The file ends in its header.";
    }
    if (!wrong.empty()) throw Failure(kExitBadInput, about(options_.name, wrong));
  }
  pacer_ = Pacer(frames_per_second());
}

double StreamSource::frames_per_second() const {
  if (!is_file_) return 0;
  if (options_.frames_per_second > 0) return options_.frames_per_second;
  const double own = parser_ == nullptr ? 0 : parser_->frames_per_second();
  return own > 0 ? own : kUsualRate;
}

std::string StreamSource::describe() const {
  const std::string what = parser_ == nullptr ? "frames of an unknown kind" : parser_->describe();
  const double rate = frames_per_second();
  if (rate == 0) return what + " from a pipe";
  return what + " from a file, " + rate_text(rate) + " frames a second" + (options_.loop ? ", looped" : "");
}

StreamSource::Input StreamSource::read_more(int64_t wait_ns) {
  if (taken_ == held_) {
    taken_ = held_ = 0;
  } else if (held_ == input_.size()) {
    return Input::kBytes;  // the parser has to take some first
  }
  pollfd watched = {descriptor_, POLLIN, 0};
  const int wait_ms = static_cast<int>(std::clamp<int64_t>((wait_ns + 999'999) / 1'000'000, 0, 60'000));
  const int ready = is_file_ ? 1 : poll(&watched, 1, wait_ms);
  if (ready == 0 || (ready < 0 && errno == EINTR)) return Input::kNothing;
  if (ready < 0) return Input::kError;
  const ssize_t count = read(descriptor_, input_.data() + held_, input_.size() - held_);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return Input::kNothing;
  if (count < 0) return Input::kError;
  if (count == 0) return Input::kEnd;
  held_ += static_cast<size_t>(count);
  return Input::kBytes;
}

// The status line of an HTTP answer that brings no stream; else empty.
std::string StreamSource::refusal() const {
  if (!begins(input_, held_, "HTTP/")) return {};
  const std::string_view text(reinterpret_cast<const char*>(input_.data()), held_);
  const std::string_view line = text.substr(0, text.find_first_of("\r\n"));
  const size_t status = line.find(' ');
  if (line.size() == text.size() || status == std::string_view::npos || line.substr(status + 1, 1) == "2") return {};
  return make_printable(line, Lines::kOne);
}

// Searches what has been read since the last search, and the longest beginning of a JPEG before it.
bool StreamSource::finds_jpeg() {
  constexpr size_t kMaxBeginning = 66'000;
  const size_t from = searched_ > kMaxBeginning ? searched_ - kMaxBeginning : 0;
  searched_ = held_;
  return has_jpeg(input_.data() + from, held_ - from);
}

// Chooses by the first bytes, once there are enough. Returns what is wrong with them.
std::string StreamSource::choose_parser(bool at_end) {
  if (parser_ != nullptr || (held_ < kSniffedBytes && !at_end)) return {};
  if (begins(input_, held_, "YUV4MPEG2 ")) {
    parser_ = make_y4m_parser(parse_color(options_.color));
  } else if (const std::string answer = refusal(); !answer.empty()) {
    return "The camera's server answers \"" + answer + "\" instead of a stream.";
  } else if (begins(input_, held_, "\xFF\xD8\xFF") || begins(input_, held_, "--") || finds_jpeg()) {
    parser_ = make_mjpeg_parser();
  } else if (held_ == 0) {
    return "There are no bytes.";
  } else if (held_ == input_.size() && held_ < kSearchedBytes) {
    input_.resize(2 * held_);
  } else if (at_end || held_ == input_.size()) {
    return "This is neither motion JPEG nor Y4M: name the format and size of raw frames, or let ffmpeg read it and "
           "give Y4M (ffmpeg -i FILE -vf scale=out_color_matrix=bt601 -pix_fmt yuv420p -f yuv4mpegpipe -).";
  }
  return {};
}

SourceEvent StreamSource::parse(Frame* frame) {
  for (;;) {
    SourceEvent event = parser_->next(frame);
    if (event.kind != SourceEvent::kTimeout) return event;
    if (taken_ == held_) return event;
    taken_ += parser_->take(input_.data() + taken_, held_ - taken_);
  }
}

SourceEvent StreamSource::end_of_input() {
  const bool cut = parser_ != nullptr && parser_->finish();
  taken_ = held_ = 0;
  at_end_ = true;
  if (is_file_ && options_.loop && any_in_pass_ && lseek(descriptor_, file_begin_, SEEK_SET) >= 0) at_end_ = false;
  any_in_pass_ = false;
  if (cut) return {.kind = SourceEvent::kBroken, .what = "The last frame is cut short."};
  return {.kind = at_end_ ? SourceEvent::kEnd : SourceEvent::kTimeout};
}

SourceEvent StreamSource::next(Frame* frame, std::chrono::milliseconds wait) {
  if (at_end_) return {.kind = SourceEvent::kEnd};
  const int64_t end_ns = monotonic_ns() + std::chrono::nanoseconds(wait).count();
  if (is_file_ && options_.paced && !pacer_.wait_until_due(wait)) return {.kind = SourceEvent::kTimeout};
  for (bool first = true;; first = false) {
    if (parser_ != nullptr) {
      SourceEvent event = parse(frame);
      if (event.kind == SourceEvent::kFrame) {
        if (is_file_) pacer_.advance();
        any_in_pass_ = true;
        frame->truth.clear();
        frame->sequence = ++sequence_;
        frame->captured_ns = monotonic_ns();
        frame->file_ns = is_file_ ? sequence_ * pacer_.period_ns() : 0;
      }
      if (event.kind != SourceEvent::kTimeout) return event;
    }
    const int64_t left_ns = end_ns - monotonic_ns();
    if (left_ns <= 0 && !first) return {.kind = SourceEvent::kTimeout};
    const Input input = read_more(left_ns);
    const bool is_paused = input == Input::kNothing || (input == Input::kEnd && taken_ == held_);
    if (is_paused && parser_ != nullptr && parser_->pause()) continue;
    if (input == Input::kNothing) return {.kind = SourceEvent::kTimeout};
    if (input == Input::kError) {
      return {.kind = SourceEvent::kLost, .what = std::string("Reading failed: ") + std::strerror(errno) + "."};
    }
    const std::string wrong = choose_parser(input == Input::kEnd);
    if (!wrong.empty()) return {.kind = SourceEvent::kLost, .what = wrong};
    if (input == Input::kEnd && taken_ == held_) return end_of_input();
  }
}

}  // namespace ocellus::app

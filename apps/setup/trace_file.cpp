#include "apps/setup/trace_file.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <utility>

#include "apps/base/clock.h"
#include "apps/base/failure.h"
#include "apps/base/sizes.h"

namespace ocellus::app {
namespace {

constexpr size_t kMaxWaiting = 1 << 16;
constexpr std::chrono::milliseconds kWritePause(100);

constexpr char kBegin[] = "[\n";
constexpr char kEnd[] = "\n]\n";

pid_t own_thread() {
  thread_local const pid_t id = ::gettid();
  return id;
}

std::string quoted(const char* text) {
  std::string result = "\"";
  for (; *text != '\0'; ++text) {
    const auto c = static_cast<unsigned char>(*text);
    if (c == '"' || c == '\\') result += '\\';
    result += c < 0x20 || c >= 0x7F ? '?' : *text;
  }
  return result + '"';
}

// Formats microseconds, the unit of the format, without losing nanoseconds.
std::string microseconds(int64_t nanoseconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%s%" PRId64 ".%03d", nanoseconds < 0 ? "-" : "", std::abs(nanoseconds) / 1000,
                static_cast<int>(std::abs(nanoseconds) % 1000));
  return text;
}

std::string event_head(const std::string& name, const char* phase, pid_t thread) {
  static const std::string process = std::to_string(::getpid());
  return "{\"name\":" + name + ",\"ph\":\"" + phase + "\",\"pid\":" + process + ",\"tid\":" + std::to_string(thread);
}

}  // namespace

// Throws if the file exists and is no trace: it may be a picture, or a model. A trace begins with a thread's name, or
// has no events.
void TraceFile::check_place() const {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path_, ignored) || std::filesystem::file_size(path_, ignored) == 0) return;
  char begin[64] = {};
  std::ifstream(path_, std::ios::binary).read(begin, sizeof begin - 1);
  const std::string_view text = begin;
  const std::string named = kBegin + ("{\"name\":" + quoted("thread_name")), empty = std::string(kBegin) + kEnd;
  if (text.starts_with(named) || text == empty) return;
  throw Failure(kExitUsage, "--trace " + path_ + " exists and is no trace: give another name.");
}

void TraceFile::open() {
  if (file_ >= 0) return;
  check_place();
  file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file_ < 0) {
    throw Failure(kExitRuntime,
                  "--trace " + path_ + " cannot be written: " + std::strerror(errno) + "; give another place.");
  }
  start_ns_ = monotonic_ns();
  waiting_.reserve(kMaxWaiting);
  is_open_ = true;
  writer_ = std::thread([this] { write_loop(); });
}

void TraceFile::close() {
  if (!writer_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    is_open_ = false;
  }
  changed_.notify_all();
  writer_.join();
  if (::close(file_) != 0 && !failed_) fail(errno);
  if (left_out_ > 0) {
    complain_("The trace " + path_ + " lacks " + format_count(left_out_, "range") +
              " that came faster than they could be written.");
  }
}

void TraceFile::add(const char* name, int64_t begin_ns, int64_t end_ns) {
  const pid_t thread = own_thread();
  bool is_half_full = false;
  {
    const std::lock_guard lock(mutex_);
    if (!is_open_) return;
    if (waiting_.size() == kMaxWaiting) {
      ++left_out_;
      return;
    }
    waiting_.push_back({name, begin_ns, end_ns, thread});
    is_half_full = waiting_.size() == kMaxWaiting / 2;
    if (std::find(known_threads_.begin(), known_threads_.end(), thread) == known_threads_.end()) {
      NamedThread named = {thread, {}};
      ::pthread_getname_np(::pthread_self(), named.name, sizeof named.name);
      known_threads_.push_back(thread);
      new_threads_.push_back(named);
    }
  }
  if (is_half_full) changed_.notify_all();
}

void TraceFile::receive(void* self, const char* name, int64_t begin_ns, int64_t end_ns) {
  static_cast<TraceFile*>(self)->add(name, begin_ns, end_ns);
}

void TraceFile::write_loop() {
  // A file beyond the process's size limit must fail here (EFBIG), not end the program (SIGXFSZ).
  sigset_t all;
  sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  std::vector<Range> ranges;
  ranges.reserve(kMaxWaiting);
  if (write_text(kBegin)) good_bytes_ = sizeof kBegin - 1;
  for (bool ends = false; !ends;) {
    std::vector<NamedThread> threads;
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, kWritePause, [&] { return stopping_ || waiting_.size() >= kMaxWaiting / 2; });
      ends = stopping_;
      std::swap(ranges, waiting_);
      std::swap(threads, new_threads_);
    }
    if (!failed_) write_events(ranges, threads);
    ranges.clear();
  }
  if (!failed_) write_text(kEnd);
}

void TraceFile::write_events(const std::vector<Range>& ranges, const std::vector<NamedThread>& threads) {
  text_.clear();
  const bool had_events = has_events_;
  for (const NamedThread& thread : threads) {
    append_event(event_head("\"thread_name\"", "M", thread.thread) + ",\"args\":{\"name\":" + quoted(thread.name) +
                 "}}");
  }
  for (const Range& range : ranges) {
    append_event(event_head(quoted(range.name), "X", range.thread) +
                 ",\"ts\":" + microseconds(range.begin_ns - start_ns_) +
                 ",\"dur\":" + microseconds(range.end_ns - range.begin_ns) + "}");
  }
  if (write_text(text_)) {
    good_bytes_ += static_cast<int64_t>(text_.size());
  } else {
    has_events_ = had_events;
  }
}

void TraceFile::append_event(const std::string& event) {
  text_ += has_events_ ? ",\n" + event : event;
  has_events_ = true;
}

bool TraceFile::write_text(const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t wrote = ::write(file_, text.data() + done, text.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) {
      fail(wrote < 0 ? errno : ENOSPC);
      return false;
    }
    done += static_cast<size_t>(wrote);
  }
  return true;
}

// Keeps the events before: the file is cut after its last whole event, which also makes room for the end.
void TraceFile::fail(int error) {
  if (std::exchange(failed_, true)) return;
  if (::ftruncate(file_, good_bytes_) == 0 && ::lseek(file_, good_bytes_, SEEK_SET) == good_bytes_) {
    (void)!::write(file_, kEnd, sizeof kEnd - 1);
  }
  complain_("The trace " + path_ + " cannot be written any more (" + std::strerror(error) + "); the work goes on.");
}

}  // namespace ocellus::app

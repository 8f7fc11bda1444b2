#include "apps/terminal.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <utility>

#include "apps/failure.h"

namespace ocellus::app {
namespace {

int write_error = 0;

}  // namespace

void reserve_standard_streams() {
  // open takes the lowest free number.
  for (int descriptor = 0; descriptor <= STDERR_FILENO; ++descriptor) {
    if (fcntl(descriptor, F_GETFD) < 0 && open("/dev/null", O_RDONLY) < 0) return;
  }
}

bool stdin_is_terminal() { return isatty(STDIN_FILENO) != 0; }
bool stdout_is_terminal() { return isatty(STDOUT_FILENO) != 0; }

bool print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    if (write_error == 0) write_error = errno;
    return false;
  }
  return true;
}

void flush_output() {
  if (std::fflush(stdout) != 0 && write_error == 0) write_error = errno;
  if (write_error != 0) {
    throw Failure(kExitRuntime, std::string("the output cannot be written: ") + std::strerror(write_error) + ".");
  }
}

std::string make_harmless(std::string_view text) {
  std::string safe(text);
  for (char& c : safe) {
    const bool is_control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    if (is_control && c != '\n' && c != '\t') c = '?';
  }
  return safe;
}

void print_note(const std::string& line) { std::fprintf(stderr, "%s\n", make_harmless(line).c_str()); }

void print_failure(const std::string& sentence) {
  print_note("ocellus: " + sentence + (sentence.ends_with('.') ? "" : "."));
}

Progress::Progress(bool quiet, std::string text) : text_(std::move(text)) {
  if (!quiet && isatty(STDERR_FILENO)) thread_ = std::thread([this] { show_changes(); });
}

void Progress::set(std::string text) {
  const std::lock_guard lock(mutex_);
  text_ = std::move(text);
}

void Progress::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Progress::show_changes() {
  using namespace std::chrono_literals;
  std::unique_lock lock(mutex_);
  const auto stopping = [this] { return stopping_; };
  if (changed_.wait_for(lock, 1s, stopping)) return;
  std::string shown;
  do {
    if (shown == text_) continue;
    shown = text_;
    std::fprintf(stderr, "\r\033[K%s", shown.c_str());
    std::fflush(stderr);
  } while (!changed_.wait_for(lock, 200ms, stopping));
  std::fputs("\r\033[K", stderr);
}

}  // namespace ocellus::app

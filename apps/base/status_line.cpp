#include "apps/base/status_line.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <string_view>

namespace ocellus::app {
namespace {

constexpr std::string_view kEraseLine = "\r\033[K";

std::mutex line_mutex;
std::string line_text;  // the newest line
std::atomic<bool> line_is_shown{false};
std::atomic<bool> program_ends{false};

void write_to_terminal(std::string_view text) { (void)!::write(STDERR_FILENO, text.data(), text.size()); }

}  // namespace

void show_status_line(const std::string& text) {
  const std::lock_guard lock(line_mutex);
  if (program_ends || (line_is_shown && text == line_text)) return;
  line_text = text;
  line_is_shown = true;
  write_to_terminal(std::string(kEraseLine) + text);
}

void erase_status_line() {
  if (line_is_shown.exchange(false)) write_to_terminal(kEraseLine);
}

StatusLinePause::StatusLinePause() : lock_(line_mutex) { erase_status_line(); }

void erase_status_line_at_end() {
  for (const int number : {SIGHUP, SIGINT, SIGTERM}) {
    struct sigaction action = {};
    if (sigaction(number, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) continue;
    action.sa_handler = end_by_signal;
    sigaction(number, &action, nullptr);
  }
}

void end_by_signal(int number) {
  program_ends = true;
  erase_status_line();
  std::signal(number, SIG_DFL);
  std::raise(number);
}

}  // namespace ocellus::app

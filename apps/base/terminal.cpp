#include "apps/base/terminal.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>

#include "apps/base/failure.h"
#include "apps/base/printable_text.h"
#include "apps/base/status_line.h"

namespace ocellus::app {
namespace {

int write_error = 0;

bool write_to_stdout(std::string_view text) {
  std::optional<StatusLinePause> pause;
  if (stdout_is_terminal()) pause.emplace();
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    if (write_error == 0) write_error = errno;
    return false;
  }
  return true;
}

// Returns the text with the middle left out of words that are longer than any name of a file, which a sentence quotes
// from the arguments.
std::string shorten_words(const std::string& text) {
  constexpr size_t kMaxBytes = 512, kStartBytes = 64, kEndBytes = 32;
  const auto is_inside = [&text](size_t at) { return (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80; };
  std::string result;
  for (size_t begin = 0, end = 0; begin < text.size(); begin = end) {
    end = std::min(text.find(' ', begin), text.size() - 1) + 1;
    size_t left = begin + kStartBytes, right = end - std::min(end, kEndBytes);
    if (end - begin <= kMaxBytes) {
      result += text.substr(begin, end - begin);
      continue;
    }
    while (left > begin && is_inside(left)) --left;
    while (right < end && is_inside(right)) ++right;
    result += text.substr(begin, left - begin) + "..." + text.substr(right, end - right);
  }
  return result;
}

}  // namespace

void reserve_standard_streams() {
  // open() returns the lowest free descriptor.
  for (int descriptor = 0; descriptor <= STDERR_FILENO; ++descriptor) {
    if (fcntl(descriptor, F_GETFD) < 0 && open("/dev/null", O_RDONLY) < 0) return;
  }
}

bool stdin_is_terminal() { return isatty(STDIN_FILENO) != 0; }
bool stdout_is_terminal() { return isatty(STDOUT_FILENO) != 0; }

bool print(std::string_view text) { return write_to_stdout(make_printable(text, Lines::kMany)); }

bool print_answer(std::string_view text) { return stdout_is_terminal() ? print(text) : write_to_stdout(text); }

void flush_output() {
  if (std::fflush(stdout) != 0 && write_error == 0) write_error = errno;
  if (write_error != 0) {
    throw Failure(kExitRuntime, std::string("the output cannot be written: ") + std::strerror(write_error) + ".");
  }
}

void print_note(const std::string& line) { print_notes(make_printable(line, Lines::kOne) + "\n"); }

void print_urls(const std::vector<std::string>& urls, const std::string& token, const std::string& remark) {
  const bool is_shown = !token.empty() && isatty(STDERR_FILENO) != 0;
  for (size_t i = 0; i < urls.size(); ++i) {
    print_note("ocellus: " + urls[i] + (is_shown ? "/#token=" + token : "") + (i == 0 ? remark : ""));
  }
}

void print_notes(const std::string& lines) {
  const StatusLinePause pause;
  std::fprintf(stderr, "%s", make_printable(lines, Lines::kMany).c_str());
}

void print_failure(const std::string& sentence) {
  print_note("ocellus: " + shorten_words(sentence) + (sentence.ends_with('.') ? "" : "."));
}

}  // namespace ocellus::app

#include "apps/watch/typed_questions.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "apps/base/failure.h"
#include "apps/base/stop_request.h"
#include "apps/base/terminal.h"
#include "apps/setup/answer.h"

namespace ocellus::app {
namespace {

constexpr int kWaitMs = 200;
constexpr size_t kMaxLineBytes = 8192;

// A background process must not read from its terminal: it would be stopped.
bool may_read_stdin() { return !stdin_is_terminal() || tcgetpgrp(STDIN_FILENO) == getpgrp(); }

nlohmann::ordered_json number_setting(const char* name, const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0') throw Failure(kExitUsage, std::string("/") + name + " needs a number.");
  return {{name, value}};
}

}  // namespace

TypedQuestions::TypedQuestions(Watcher* watcher) : watcher_(watcher), thread_([this] { read_lines(); }) {}

TypedQuestions::~TypedQuestions() {
  stopping_ = true;
  thread_.join();
}

void TypedQuestions::read_lines() {
  std::string waiting;
  std::array<char, 4096> piece;
  while (!stopping_) {
    pollfd input = {.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    if (poll(&input, 1, kWaitMs) <= 0 || !may_read_stdin()) continue;
    const ssize_t count = read(STDIN_FILENO, piece.data(), piece.size());
    if (count <= 0) return;
    waiting.append(piece.data(), static_cast<size_t>(count));
    for (size_t end = waiting.find('\n'); end != std::string::npos; end = waiting.find('\n')) {
      std::string line = waiting.substr(0, end);
      waiting.erase(0, end + 1);
      if (!line.empty() && line.back() == '\r') line.pop_back();
      try {
        obey(line);
      } catch (const Failure& failure) {
        print_failure(failure.what());
      }
    }
    if (waiting.size() > kMaxLineBytes) waiting.clear();
  }
}

void TypedQuestions::obey(const std::string& line) {
  if (line.find_first_not_of(" \t") == std::string::npos) return;
  if (line[0] != '/') {
    if (!watcher_->ask(line)) throw Failure(kExitRuntime, "too many questions wait already.");
    return;
  }
  const size_t space = line.find(' ');
  const std::string command = line.substr(0, space);
  const std::string argument = space == std::string::npos ? "" : line.substr(space + 1);
  const auto set = [this](const nlohmann::ordered_json& changes) { watcher_->change_settings(changes); };
  if (command == "/prompt") return set({{"prompt", argument}});
  if (command == "/every") return set(number_setting("every_s", argument));
  if (command == "/change") return set(number_setting("change", argument));
  if (command == "/pause" || command == "/resume") return set({{"paused", command == "/pause"}});
  if (command == "/stats") return print_notes(json_line(watcher_->state()));
  if (command == "/forget") return print_note(watcher_->forget(argument));
  if (command == "/quit") return request_stop();
  throw Failure(kExitUsage, "unknown command " + command + ": there are /prompt TEXT, /every SECONDS, /change X, " +
                                "/pause, /resume, /stats, /forget TIME and /quit; other lines are questions.");
}

}  // namespace ocellus::app

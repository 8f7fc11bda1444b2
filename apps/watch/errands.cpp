#include "apps/watch/errands.h"

#include <netdb.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <memory>
#include <regex>
#include <thread>

#include "apps/base/clock.h"
#include "apps/base/failure.h"
#include "apps/base/stop_request.h"
#include "apps/http/http_access.h"
#include "apps/watch/history_folder.h"

namespace ocellus::app {
namespace {

constexpr int64_t kCommandNs = 10'000'000'000;
constexpr timeval kPatience = {.tv_sec = 3, .tv_usec = 0};  // to connect, to send, and for the answer

std::string run_command(const std::string& command, const AnswerEvent& event) {
  const OwnedDescriptor input(memfd_create("answer", MFD_CLOEXEC));
  const std::string& text = event.answer;
  if (write(input.get(), text.data(), text.size()) != std::ssize(text) || lseek(input.get(), 0, SEEK_SET) != 0) {
    return std::strerror(errno);
  }
  char shell[] = "sh", flag[] = "-c";
  std::string line = "export OCELLUS_ID=" + std::to_string(event.id) +
                     " OCELLUS_SEQUENCE=" + std::to_string(event.sequence) +
                     " OCELLUS_AT_MS=" + std::to_string(event.at_ms) + "; " + command;
  char* const arguments[] = {shell, flag, line.data(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);  // stdout has the captions
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);  // Ctrl-C goes to the program alone
  pid_t process = 0;
  const int error = posix_spawn(&process, "/bin/sh", &actions, &attributes, arguments, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return std::strerror(error);
  const int64_t limit_ns = monotonic_ns() + kCommandNs;
  bool is_killed = false;
  int status = 0;
  while (waitpid(process, &status, WNOHANG) == 0) {
    is_killed = stop_requested() || monotonic_ns() > limit_ns;
    if (is_killed) kill(-process, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  if (is_killed) return "killed after 10 s or at the stop";
  if (WIFSIGNALED(status)) return "ended by signal " + std::to_string(WTERMSIG(status));
  return status == 0 ? "" : "exit code " + std::to_string(WEXITSTATUS(status));
}

std::string post(const std::string& host, const std::string& port, const std::string& request) {
  const auto why = [] { return std::strerror(errno == EAGAIN || errno == EINPROGRESS ? ETIMEDOUT : errno); };
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  if (error != 0) return gai_strerror(error);
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  const OwnedDescriptor owned(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int line = owned.get();
  for (const int option : {SO_SNDTIMEO, SO_RCVTIMEO})
    setsockopt(line, SOL_SOCKET, option, &kPatience, sizeof kPatience);
  if (connect(line, found->ai_addr, found->ai_addrlen) != 0) return why();
  if (send(line, request.data(), request.size(), MSG_NOSIGNAL) != std::ssize(request)) return why();
  std::string answer(4096, '\0');  // read as a whole, so that the other end is not cut off
  if (recv(line, answer.data(), answer.size(), MSG_WAITALL) < 0) return why();
  return answer.starts_with("HTTP/1.") && answer[9] == '2' ? "" : "the answer was " + answer.substr(0, 12);
}

}  // namespace

Errand make_command(const std::string& command) {
  const std::string word = command.substr(0, command.find_first_of(" \t\n"));
  const bool is_plain = word.find_first_of("|&;<>()$`\\\"'*?[#~=!{}") == std::string::npos;
  if (is_plain && !run_command("it=$(command -v " + word + ") && case $it in */*) [ -x $it ];; esac", {}).empty()) {
    throw Failure(kExitUsage, "--run " + command + ": there is no command " + word + ".");
  }
  return [command](const AnswerEvent& event) { return run_command(command, event); };
}

Errand make_post(const std::string& address, bool anywhere) {
  static const std::regex kForm(R"(http://((\[([0-9A-Fa-f:.]+)\]|([\w.-]+))(:(\d{1,5}))?)(/[!-~]*)?)");
  std::smatch parts;
  if (!std::regex_match(address, parts, kForm) || (parts[6].matched && std::stoi(parts[6]) > 65535)) {
    throw Failure(kExitUsage,
                  "--post " + address + ": write http://ADDRESS:PORT/PATH, as in http://127.0.0.1:80/event.");
  }
  std::string host = parts[3].str() + parts[4].str();
  if (host == "localhost") host = "127.0.0.1";
  if (!anywhere && !is_loopback_address(host)) {
    throw Failure(kExitUsage, "--post " + address + ": not this machine's own address; --post-anywhere allows others.");
  }
  const std::string port = parts[6].matched ? parts[6] : std::string("80");
  const std::string head = "POST " + (parts[7].matched ? parts[7].str() : "/") +
                           " HTTP/1.1\r\nHost: " + parts[1].str() +
                           "\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: ";
  return [=](const AnswerEvent& event) {
    return post(host, port, head + std::to_string(event.report.size()) + "\r\n\r\n" + event.report);
  };
}

}  // namespace ocellus::app

#include "apps/base/stop_request.h"

#include <semaphore.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <thread>

#include "apps/base/failure.h"
#include "apps/base/status_line.h"

namespace ocellus::app {
namespace {

std::atomic<ocellus_session*> session_at_work{nullptr};
std::atomic<int> cancelling{0};  // threads that may hold that session
std::atomic<bool> is_requested{false};
std::atomic<int> stop_signal{0};
sem_t stop_asked;  // posted by the signal handler, waited for by a thread

void on_signal(int signal_number) {
  if (stop_requested()) {
    end_by_signal(signal_number);
  }
  const int before = errno;
  stop_signal = signal_number;
  request_stop();
  errno = before;
}

}  // namespace

void watch_for_stop(std::initializer_list<int> signals) {
  (void)sem_init(&stop_asked, 0, 0);
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int number : signals) {
    struct sigaction before = {};
    sigaction(number, nullptr, &before);
    const bool may_be_ignored = number == SIGHUP || number == SIGQUIT;
    if (!may_be_ignored || before.sa_handler != SIG_IGN) sigaction(number, &action, nullptr);
  }
}

bool stop_requested() { return is_requested; }

int stop_exit_code() { return stop_signal == 0 ? kExitInterrupted : 128 + stop_signal; }

void wait_for_stop() {
  while (!stop_requested()) (void)sem_wait(&stop_asked);
}

void request_stop() {
  is_requested = true;
  (void)sem_post(&stop_asked);
  ++cancelling;
  if (ocellus_session* session = session_at_work.load()) ocellus_session_cancel(session);
  --cancelling;
}

StoppableWork::StoppableWork(ocellus_session* session) { session_at_work = session; }

// Whoever has taken the session before this may still cancel it: its engine may be destroyed next.
StoppableWork::~StoppableWork() {
  session_at_work = nullptr;
  while (cancelling != 0) std::this_thread::yield();
}

}  // namespace ocellus::app

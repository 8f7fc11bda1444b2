#include "apps/base/stop_request.h"

#include <semaphore.h>

#include <atomic>
#include <cerrno>
#include <csignal>

namespace ocellus::app {
namespace {

std::atomic<ocellus_session*> session_at_work{nullptr};
std::atomic<bool> is_requested{false};
sem_t stop_asked;  // posted by the signal handler, waited for by a thread

void on_signal(int signal_number) {
  if (stop_requested()) {
    std::signal(signal_number, SIG_DFL);
    std::raise(signal_number);
  }
  const int before = errno;
  request_stop();
  errno = before;
}

}  // namespace

void watch_for_stop() {
  (void)sem_init(&stop_asked, 0, 0);
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool stop_requested() { return is_requested; }

void wait_for_stop() {
  while (!stop_requested()) (void)sem_wait(&stop_asked);
}

void request_stop() {
  is_requested = true;
  (void)sem_post(&stop_asked);
  if (ocellus_session* session = session_at_work.load()) ocellus_session_cancel(session);
}

StoppableWork::StoppableWork(ocellus_session* session) { session_at_work = session; }

StoppableWork::~StoppableWork() { session_at_work = nullptr; }

}  // namespace ocellus::app

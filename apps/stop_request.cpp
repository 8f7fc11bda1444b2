#include "apps/stop_request.h"

#include <atomic>
#include <csignal>

namespace ocellus {
namespace {

std::atomic<ocellus_session*> session_at_work{nullptr};
std::atomic<bool> is_requested{false};

void on_signal(int signal_number) {
  if (is_requested.exchange(true)) {
    std::signal(signal_number, SIG_DFL);
    std::raise(signal_number);
  }
  if (ocellus_session* session = session_at_work.load()) ocellus_session_cancel(session);
}

}  // namespace

void watch_for_stop() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool stop_requested() { return is_requested; }

void request_stop() {
  is_requested = true;
  if (ocellus_session* session = session_at_work.load()) ocellus_session_cancel(session);
}

StoppableWork::StoppableWork(ocellus_session* session) {
  session_at_work = session;
  if (stop_requested()) ocellus_session_cancel(session);
}

StoppableWork::~StoppableWork() { session_at_work = nullptr; }

}  // namespace ocellus

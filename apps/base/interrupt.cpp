#include "apps/base/interrupt.h"

#include <atomic>

#include "apps/base/status_line.h"

namespace ocellus::app {
namespace {

std::atomic<ocellus_session*> working_session{nullptr};  // null also once it was cancelled

void on_interrupt(int signal_number) {
  if (ocellus_session* session = working_session.exchange(nullptr)) {
    ocellus_session_cancel(session);
  } else {
    end_by_signal(signal_number);
  }
}

}  // namespace

InterruptScope::InterruptScope(Session* session) {
  working_session = session->get();
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &previous_);
}

bool InterruptScope::is_requested() const { return working_session == nullptr; }

InterruptScope::~InterruptScope() {
  sigaction(SIGINT, &previous_, nullptr);
  working_session = nullptr;
}

}  // namespace ocellus::app

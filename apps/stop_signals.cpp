#include "apps/stop_signals.h"

#include <semaphore.h>

#include <cerrno>

namespace ocellus {
namespace {

sem_t stop_asked;

void on_stop(int signal_number) {
  const int before = errno;
  (void)sem_post(&stop_asked);
  std::signal(signal_number, SIG_DFL);
  errno = before;
}

}  // namespace

StopSignals::StopSignals() {
  (void)sem_init(&stop_asked, 0, 0);
  struct sigaction action = {};
  action.sa_handler = on_stop;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &previous_interrupt_);
  sigaction(SIGTERM, &action, &previous_terminate_);
}

StopSignals::~StopSignals() {
  sigaction(SIGINT, &previous_interrupt_, nullptr);
  sigaction(SIGTERM, &previous_terminate_, nullptr);
}

void StopSignals::wait() {
  while (sem_wait(&stop_asked) != 0 && errno == EINTR) {
  }
}

}  // namespace ocellus

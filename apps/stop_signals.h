// Ctrl-C and SIGTERM for programs that run until then.
#ifndef OCELLUS_APPS_STOP_SIGNALS_H_
#define OCELLUS_APPS_STOP_SIGNALS_H_

#include <csignal>

namespace ocellus {

// While it lives, the first SIGINT or SIGTERM ends wait(), and the second ends the program. One at a time.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  void wait();

 private:
  struct sigaction previous_interrupt_;
  struct sigaction previous_terminate_;
};

}  // namespace ocellus

#endif  // OCELLUS_APPS_STOP_SIGNALS_H_

// Ctrl-C and SIGTERM for commands that run until they are stopped.
#pragma once

#include <csignal>
#include <initializer_list>

#include "runtime/ocellus.h"

namespace ocellus::app {

// Installs the handlers: the first of these signals requests a stop and cancels the session at work, if there is one;
// the second ends the program as usual. SIGHUP and SIGQUIT stay ignored if the parent process ignores them.
void watch_for_stop(std::initializer_list<int> signals = {SIGINT, SIGTERM});
bool stop_requested();
// Returns the exit code of a run that a signal stopped: 128 and the signal's number, 130 if there was no signal.
int stop_exit_code();
// Returns once a stop is requested; after watch_for_stop(), by one thread.
void wait_for_stop();
// Requests a stop as a signal does, for tests and for other ends of a run.
void request_stop();

// Names the session that a stop cancels during this object's lifetime. Beginning a prompt clears an earlier cancel:
// check stop_requested() then.
class StoppableWork {
 public:
  explicit StoppableWork(ocellus_session* session);
  ~StoppableWork();
  StoppableWork(const StoppableWork&) = delete;
  StoppableWork& operator=(const StoppableWork&) = delete;
};

}  // namespace ocellus::app

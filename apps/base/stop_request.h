// Ctrl-C and SIGTERM for commands that go on until they are told to stop.
#pragma once

#include "runtime/ocellus.h"

namespace ocellus::app {

// From now on the first SIGINT or SIGTERM asks for a stop and cancels the session at work, if there is one, and the
// second ends the program as usual.
void watch_for_stop();
bool stop_requested();
// Returns once a stop is requested; after watch_for_stop(), by one thread.
void wait_for_stop();
// As a signal would, for tests and for ends that are found elsewhere.
void request_stop();

// The session that a stop is to cancel while this lives. A stop that came before its prompt was begun is forgotten by
// the session: look at stop_requested() then.
class StoppableWork {
 public:
  explicit StoppableWork(ocellus_session* session);
  ~StoppableWork();
  StoppableWork(const StoppableWork&) = delete;
  StoppableWork& operator=(const StoppableWork&) = delete;
};

}  // namespace ocellus::app

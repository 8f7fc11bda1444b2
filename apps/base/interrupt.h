// Ctrl-C while a session works.
#pragma once

#include <csignal>

#include "runtime/ocellus.hpp"

namespace ocellus::app {

// While an object lives, the first SIGINT cancels the session's work and the second ends the program. Otherwise SIGINT
// ends the program at once, as usual. At most one object at a time.
class InterruptScope {
 public:
  explicit InterruptScope(Session* session);
  ~InterruptScope();
  // True if SIGINT came. Check it after the first call that adds to a prompt, which clears an earlier cancel.
  bool is_requested() const;
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

 private:
  struct sigaction previous_;
};

}  // namespace ocellus::app

// The line of a terminal that is written again and again, on stderr, while work goes on.
#pragma once

#include <mutex>
#include <string>

namespace ocellus::app {

// Shows a line of printable text in place of the one before it.
void show_status_line(const std::string& text);

// Erases the line, if it is shown. Safe in signal handlers.
void erase_status_line();

// Other output goes where the line is: it is erased, and stays so during this object's lifetime.
class StatusLinePause {
 public:
  StatusLinePause();

 private:
  std::lock_guard<std::mutex> lock_;
};

// From now on SIGHUP, SIGINT and SIGTERM erase the line before they end the program, unless they have a handler or are
// ignored. Call it on the thread that installs handlers.
void erase_status_line_at_end();

// Ends the program as this signal does by itself, the line erased: for its handler.
void end_by_signal(int number);

}  // namespace ocellus::app

// Errands of events: a command that is run, a post over HTTP.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace ocellus::app {

// An answer that made a condition true.
struct AnswerEvent {
  std::string answer;  // a line of JSON
  std::string report;  // another: condition, numbers, time and answer
  int64_t id = 0, sequence = 0, at_ms = 0;
};

// Waits for its end; returns why it failed, else "".
using Errand = std::function<std::string(const AnswerEvent&)>;

// Runs a command in a shell: the answer on its stdin, its stdout on stderr, OCELLUS_ID, OCELLUS_SEQUENCE and
// OCELLUS_AT_MS set. Kills it and its children after 10 s and at a stop. Throws a Failure for an unknown command.
Errand make_command(const std::string& command);

// Posts the report to "http://HOST[:PORT][/PATH]", within 9 s of the lookup. Throws a Failure for
// other forms and, unless `anywhere`, for a host that is not this machine.
Errand make_post(const std::string& address, bool anywhere);

}  // namespace ocellus::app

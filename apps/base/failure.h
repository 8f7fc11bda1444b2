// Failures that end the program: one sentence on stderr and an exit code.
#pragma once

#include <exception>
#include <stdexcept>
#include <string>

#include "apps/base/plain_text.h"
#include "runtime/ocellus.hpp"

namespace ocellus::app {

enum ExitCode {
  kExitOk = 0,
  kExitRuntime = 1,
  kExitUsage = 2,
  kExitOverBudget = 3,  // does not fit the budget or the plan
  kExitBadInput = 4,    // a model, picture or question file
  kExitInterrupted = 130,
};

class Failure : public std::runtime_error {
 public:
  // A sentence that quotes something very long is cut in its middle.
  Failure(ExitCode exit_code, const std::string& sentence)
      : std::runtime_error(shorten_sentence(sentence)), exit_code_(exit_code) {}
  ExitCode exit_code() const { return exit_code_; }

 private:
  ExitCode exit_code_;
};

ExitCode exit_code_of(ocellus_status status);

// The failure to open or read a file called `subject`, by errno: "SUBJECT: what: strerror.". The exit code blames the
// file unless the system is out of memory or descriptors or its disk fails.
Failure file_failure(const std::string& subject, const char* what);

// Returns a sentence for an exception of the standard library, or any other.
std::string describe_exception(const std::exception& error);

// The library's last failure, with flags for limits; `subject` (a path, a line of a file) is put before its sentence.
Failure library_failure(ocellus_status status, const std::string& subject = "");

// Throws library_failure unless it succeeded.
void check(Status status, const std::string& subject = "");

// Returns the value of a result, or throws library_failure.
template <class T>
T take(Result<T> result, const std::string& subject = "") {
  check(result.status(), subject);
  return *std::move(result);
}

}  // namespace ocellus::app

// How the program ends when something is wrong: one sentence on stderr and an exit code.
#pragma once

#include <exception>
#include <stdexcept>
#include <string>

#include "runtime/ocellus.h"

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
  Failure(ExitCode exit_code, const std::string& sentence) : std::runtime_error(sentence), exit_code_(exit_code) {}
  ExitCode exit_code() const { return exit_code_; }

 private:
  ExitCode exit_code_;
};

ExitCode exit_code_of(ocellus_status status);

// A file, called `subject`, that could not be opened or read, by errno: "SUBJECT: what: the system's words.". Where the
// system has no memory or descriptors left, or its disk fails, that is not the file's fault.
Failure file_failure(const std::string& subject, const char* what);

// What the standard library's exceptions mean to a user; the sentence of any other.
std::string describe_exception(const std::exception& error);

// The library's last failure; `subject` (a path, a line of a file) goes before its sentence.
Failure library_failure(ocellus_status status, const std::string& subject = "");

// Throws library_failure unless `status` is OCELLUS_OK.
void check(ocellus_status status, const std::string& subject = "");

}  // namespace ocellus::app

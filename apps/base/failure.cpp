#include "apps/base/failure.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <new>
#include <system_error>

#include "apps/base/limit_flags.h"

namespace ocellus::app {

ExitCode exit_code_of(ocellus_status status) {
  switch (status) {
    case OCELLUS_OK: return kExitOk;
    case OCELLUS_BAD_ARGUMENT: return kExitUsage;
    case OCELLUS_BAD_FILE:
    case OCELLUS_UNSUPPORTED:
    case OCELLUS_BAD_IMAGE: return kExitBadInput;
    case OCELLUS_OVER_BUDGET:
    case OCELLUS_FULL: return kExitOverBudget;
    case OCELLUS_CANCELLED: return kExitInterrupted;
    case OCELLUS_DEADLINE:
    case OCELLUS_IO:
    case OCELLUS_DEVICE:
    case OCELLUS_INTERNAL: break;
  }
  return kExitRuntime;
}

Failure file_failure(const std::string& subject, const char* what) {
  const int error = errno;
  const bool is_refusal = error == EMFILE || error == ENFILE || error == ENOMEM || error == EIO;
  return Failure(is_refusal ? kExitRuntime : kExitBadInput, subject + ": " + what + ": " + std::strerror(error) + ".");
}

std::string describe_exception(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    return "the system has no memory left for this: free some, or ask for less";
  }
  const auto* refused = dynamic_cast<const std::system_error*>(&error);
  if (refused == nullptr || dynamic_cast<const std::filesystem::filesystem_error*>(&error) != nullptr) {
    return error.what();
  }
  return "the system refused what this needs (" + refused->code().message() + ")";
}

Failure library_failure(ocellus_status status, const std::string& subject) {
  const std::string sentence = name_flags(Status::sentence());
  return Failure(exit_code_of(status), subject.empty() ? sentence : subject + ": " + sentence);
}

void check(Status status, const std::string& subject) {
  if (!status) throw library_failure(status.code(), subject);
}

}  // namespace ocellus::app

#include "apps/failure.h"

namespace ocellus::app {

ExitCode exit_code_of(ocellus_status status) {
  switch (status) {
    case OCELLUS_OK: return kExitOk;
    case OCELLUS_BAD_ARGUMENT: return kExitUsage;
    case OCELLUS_BAD_FILE:
    case OCELLUS_UNSUPPORTED:
    case OCELLUS_BAD_IMAGE:
    case OCELLUS_IO: return kExitBadInput;
    case OCELLUS_OVER_BUDGET:
    case OCELLUS_FULL: return kExitOverBudget;
    case OCELLUS_CANCELLED: return kExitInterrupted;
    case OCELLUS_DEADLINE:
    case OCELLUS_DEVICE:
    case OCELLUS_INTERNAL: break;
  }
  return kExitRuntime;
}

Failure library_failure(ocellus_status status, const std::string& subject) {
  const std::string sentence = ocellus_last_error()->sentence;
  return Failure(exit_code_of(status), subject.empty() ? sentence : subject + ": " + sentence);
}

void check(ocellus_status status, const std::string& subject) {
  if (status != OCELLUS_OK) throw library_failure(status, subject);
}

}  // namespace ocellus::app

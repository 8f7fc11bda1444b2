// The record of the latest failure, for tests that look whether there is a new one, and what it says.
#pragma once

#include <cstring>

#include "platform/status.h"
#include "runtime/ocellus.h"

namespace ocellus::test {

/// As on a thread that has met no failure.
inline void clear_failure() { (void)OCELLUS_FAIL(Code::kOk, "%s", ""); }

/// Checks the sentence of the last failure of ocellus.h.
inline bool last_error_says(ocellus_status status, const char* text) {
  const ocellus_failure* failure = ocellus_last_error();
  return failure->status == status && std::strstr(failure->sentence, text) != nullptr && failure->line > 0;
}

}  // namespace ocellus::test

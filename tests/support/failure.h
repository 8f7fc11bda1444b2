// The record of the latest failure, for tests that look whether there is a new one.
#pragma once

#include "platform/status.h"

namespace ocellus::test {

/// As on a thread that has met no failure.
inline void clear_failure() { (void)OCELLUS_FAIL(Code::kOk, "%s", ""); }

}  // namespace ocellus::test

#include "platform/queue.h"

namespace ocellus {

Status StopSignal::check() const {
  if (cancelled()) return OCELLUS_FAIL(Code::kCancelled, "the work was cancelled");
  if (deadline_passed()) return OCELLUS_FAIL(Code::kDeadline, "the deadline passed before the work was done");
  return {};
}

bool Queue::stopped(const StopSignal* signal) {
  if (status_.ok() && signal != nullptr) status_ = signal->check();
  return !status_.ok();
}

}  // namespace ocellus

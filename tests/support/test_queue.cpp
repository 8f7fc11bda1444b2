#include "tests/support/test_queue.h"

#include "kernels/base/highway_targets.h"

namespace ocellus::test {

TestQueue::TestQueue(int threads) : started_(pool_.start(threads)), queue_(pool_) { queue_.fail(started_); }
TestQueue::~TestQueue() = default;

namespace {
int64_t held_targets = 0;
}

/// Highway asks the processor every time, which in a virtual machine takes as long as a thousand products.
int64_t supported_targets() {
  static const int64_t detected = [] {
    hwy::SetSupportedTargetsForTest(0);
    const int64_t targets = hwy::SupportedTargets();
    hwy::SetSupportedTargetsForTest(held_targets);
    return targets;
  }();
  return held_targets != 0 ? held_targets : detected;
}
void hold_targets(int64_t targets) { hwy::SetSupportedTargetsForTest(held_targets = targets); }

void for_each_target(const std::function<void()>& body) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hold_targets(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    body();
    if (is_small_run()) break;
  }
  hold_targets(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace ocellus::test

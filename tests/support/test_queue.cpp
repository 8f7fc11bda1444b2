#include "tests/support/test_queue.h"

#include "kernels/base/highway_targets.h"

namespace ocellus::test {

TestQueue::TestQueue(int threads) : started_(pool_.start(threads)), queue_(pool_) { queue_.fail(started_); }
TestQueue::~TestQueue() = default;

void for_each_target(const std::function<void()>& body) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    body();
    if (is_small_run()) break;
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace ocellus::test

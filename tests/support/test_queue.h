// Queues for op tests, and repeating a test on every vector target this machine can run.
#pragma once

#include "kernels/base/highway_targets.h"
#include "platform/queue.h"
#include "tests/support/small_run.h"

namespace ocellus::test {

/// A queue with its own threads.
class TestQueue {
 public:
  explicit TestQueue(int threads) : started_(pool_.start(threads)), queue_(pool_) { queue_.fail(started_); }
  Queue& operator*() { return queue_; }
  Queue* operator->() { return &queue_; }

 private:
  ThreadPool pool_;
  Status started_;
  Queue queue_;
};

/// Calls body() with the kernels held to each target in turn, from the widest vectors to none; in small
/// runs to the widest only.
template <class Body>
void for_each_target(Body body) {
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

// Queues for op tests, and repeating a test on every vector target this machine can run.
#pragma once

#include <cstdint>
#include <functional>

#include "platform/queue.h"
#include "tests/support/small_run.h"

namespace ocellus::test {

/// A queue with its own threads.
class TestQueue {
 public:
  explicit TestQueue(int threads);
  ~TestQueue();
  Queue& operator*() { return queue_; }
  Queue* operator->() { return &queue_; }

 private:
  ThreadPool pool_;
  Status started_;
  Queue queue_;
};

/// Vector targets that kernels may use, as bits of Highway's, and a choice of them; 0: all of this machine's.
int64_t supported_targets();
void hold_targets(int64_t targets);

/// Calls body() with the kernels held to each target in turn, from the widest vectors to none; in small
/// runs to the widest only.
void for_each_target(const std::function<void()>& body);

}  // namespace ocellus::test

// Queues for op tests, and repeating a test on every vector target this machine can run.
#pragma once

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

/// Calls body() with the kernels held to each target in turn, from the widest vectors to none; in small
/// runs to the widest only.
void for_each_target(const std::function<void()>& body);

}  // namespace ocellus::test

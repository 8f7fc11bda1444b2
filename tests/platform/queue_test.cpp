#include "platform/queue.h"

#include <doctest/doctest.h>

#include <atomic>

namespace ocellus {
namespace {

TEST_CASE("after a failure the queue runs nothing and keeps the first cause") {
  ThreadPool pool;
  REQUIRE(pool.start(2).ok());
  Queue queue(pool);
  std::atomic<int64_t> done{0};
  const auto count = [&](int64_t begin, int64_t end, int) { done += end - begin; };
  queue.parallel(10, 1, count);
  CHECK(done == 10);
  queue.fail({});
  CHECK(queue.ok());
  queue.fail(Status(Code::kDevice));
  queue.fail(Status(Code::kFull));
  CHECK(queue.status().code() == Code::kDevice);
  queue.parallel(10, 1, count);
  CHECK(done == 10);
  queue.clear();
  queue.parallel(10, 1, count);
  CHECK(done == 20);
}

TEST_CASE("a cancellation stays until it is acknowledged") {
  ThreadPool pool;
  Queue queue(pool);
  StopSignal signal;
  CHECK_FALSE(queue.stopped(nullptr));
  CHECK_FALSE(queue.stopped(&signal));
  signal.cancel();
  CHECK(queue.stopped(&signal));
  CHECK(queue.status().code() == Code::kCancelled);
  CHECK(queue.stopped(nullptr));  // still failed
  queue.clear();
  CHECK(queue.stopped(&signal));
  queue.clear();
  signal.acknowledge();
  CHECK(signal.check().ok());
  CHECK_FALSE(queue.stopped(&signal));
}

TEST_CASE("a passed deadline stops the queue, one ahead does not, and none means never") {
  ThreadPool pool;
  Queue queue(pool);
  StopSignal signal;
  signal.set_deadline(now_ns() + 3'600'000'000'000);
  CHECK_FALSE(queue.stopped(&signal));
  signal.set_deadline(0);
  CHECK_FALSE(queue.stopped(&signal));
  signal.set_deadline(now_ns() - 1);
  CHECK(signal.check().code() == Code::kDeadline);
  CHECK(queue.stopped(&signal));
  CHECK(queue.status().code() == Code::kDeadline);
}

TEST_CASE("a stop does not replace an earlier failure") {
  ThreadPool pool;
  Queue queue(pool);
  StopSignal signal;
  queue.fail(Status(Code::kInternal));
  signal.cancel();
  CHECK(queue.stopped(&signal));
  CHECK(queue.status().code() == Code::kInternal);
}

}  // namespace
}  // namespace ocellus

#include "platform/queue.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>

#include "tests/support/device.h"

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

TEST_CASE("copies beside the ops come behind those before them and before those that wait for them") {
  test::for_each_backend([](Queue& queue) {
    constexpr size_t kCount = 1 << 18;
    constexpr auto kBytes = static_cast<int64_t>(kCount * sizeof(int32_t));
    test::Vector<int32_t> first(kCount, 1), second(kCount, 2), middle(kCount, 0), last(kCount, 0);
    for (int round = 0; round < 8; ++round) {
      queue.copy(middle.data(), first.data(), kBytes);
      queue.begin_transfers();
      queue.transfer(middle.data(), second.data(), kBytes);
      queue.end_transfers(round % Queue::kTickets);
      queue.join_transfers();
      queue.copy(last.data(), middle.data(), kBytes);
      REQUIRE(queue.finish().ok());
      CHECK(queue.transfers_done(round % Queue::kTickets));
      CHECK(std::count(last.begin(), last.end(), 2) == static_cast<int64_t>(kCount));
      std::fill(last.begin(), last.end(), 0);
    }
    // Transfers finish even if only finish() waits, and after a failure.
    queue.begin_transfers();
    queue.transfer(last.data(), second.data(), kBytes);
    queue.end_transfers(0);
    queue.fail(Status(Code::kCancelled));
    queue.wait_for_transfers(0);
    CHECK(queue.transfers_done(0));
    queue.clear();
    REQUIRE(queue.finish().ok());
    CHECK(last == second);
  });
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

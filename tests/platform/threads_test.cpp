#include "platform/threads.h"

#include <doctest/doctest.h>

#include <atomic>
#include <vector>

namespace ocellus {
namespace {

TEST_CASE("every index is visited exactly once, in pieces of at most the grain") {
  for (int threads = 1; threads <= 8; ++threads) {
    ThreadPool pool;
    REQUIRE(pool.start(threads).ok());
    CHECK(pool.thread_count() == threads);
    for (const int64_t count : {1, 2, 7, 64, 1000}) {
      for (const int64_t grain : {1, 3, 64, 5000}) {
        std::vector<std::atomic<int>> visits(static_cast<size_t>(count));
        std::atomic<bool> sound{true};
        pool.run(count, grain, [&](int64_t begin, int64_t end, int worker) {
          const bool whole = threads == 1 || count <= grain;
          if (begin >= end || worker < 0 || worker >= threads || (!whole && end - begin > grain)) sound = false;
          for (int64_t i = begin; i < end; ++i) visits[static_cast<size_t>(i)].fetch_add(1);
        });
        CHECK(sound);
        for (const std::atomic<int>& visit : visits) REQUIRE(visit == 1);
      }
    }
  }
}

TEST_CASE("two workers with the same number never run at the same time") {
  ThreadPool pool;
  REQUIRE(pool.start(4).ok());
  std::atomic<int> inside[4] = {};
  std::atomic<bool> alone{true};
  pool.run(2000, 1, [&](int64_t, int64_t, int worker) {
    if (inside[worker].fetch_add(1) != 0) alone = false;
    inside[worker].fetch_sub(1);
  });
  CHECK(alone);
}

TEST_CASE("thousands of short runs each see the previous one's writes") {
  for (const int threads : {2, 3}) {
    ThreadPool pool;
    REQUIRE(pool.start(threads).ok());
    std::vector<int64_t> values(8, 0);  // plain memory: the pool must order the writes
    for (int64_t step = 1; step <= 3000; ++step) {
      pool.run(8, 1, [&](int64_t begin, int64_t, int) { values[static_cast<size_t>(begin)] += step; });
    }
    for (const int64_t value : values) CHECK(value == 3000 * 3001 / 2);
  }
}

TEST_CASE("an empty run calls nothing") {
  ThreadPool pool;
  REQUIRE(pool.start(2).ok());
  std::atomic<int> calls{0};
  pool.run(0, 1, [&](int64_t, int64_t, int) { ++calls; });
  pool.run(-3, 1, [&](int64_t, int64_t, int) { ++calls; });
  CHECK(calls == 0);
}

TEST_CASE("thread counts outside the limits are refused") {
  ThreadPool pool;
  for (const int threads : {0, -1, ThreadPool::kMaxThreads + 1}) {
    CHECK(pool.start(threads).code() == Code::kBadArgument);
  }
  CHECK(pool.thread_count() == 1);
}

TEST_CASE("a pool can be stopped, restarted with another size and stopped twice") {
  ThreadPool pool;
  for (const int threads : {3, 1, 5}) {
    REQUIRE(pool.start(threads).ok());
    std::atomic<int64_t> sum{0};
    pool.run(100, 1, [&](int64_t begin, int64_t end, int) { sum += end - begin; });
    CHECK(sum == 100);
  }
  pool.stop();
  pool.stop();
  std::atomic<int64_t> sum{0};
  pool.run(100, 1, [&](int64_t begin, int64_t end, int) { sum += end - begin; });
  CHECK(sum == 100);
}

}  // namespace
}  // namespace ocellus

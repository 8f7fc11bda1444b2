// Times and rates that hold on a machine that is busy with other things.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>

namespace ocellus::test {

/// Milliseconds that `action` takes, the best of three attempts: other programs may hold up any single one.
inline int64_t best_ms(const std::function<std::function<void()>()>& prepare) {
  int64_t best = 1 << 30;
  for (int i = 0; i < 3; ++i) {
    const std::function<void()> action = prepare();
    const auto begin = std::chrono::steady_clock::now();
    action();
    const auto took = std::chrono::steady_clock::now() - begin;
    best = std::min<int64_t>(best, std::chrono::duration_cast<std::chrono::milliseconds>(took).count());
  }
  return best;
}

/// Returns the growth of `count` during some time, per 10 ms.
inline double growth_per_10_ms(const std::function<int64_t()>& count, std::chrono::milliseconds time) {
  const auto begin = std::chrono::steady_clock::now();
  const int64_t before = count();
  std::this_thread::sleep_for(time);
  const int64_t after = count();
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  return 10 * static_cast<double>(after - before) / took.count();
}

}  // namespace ocellus::test

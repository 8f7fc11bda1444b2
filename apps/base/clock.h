// CLOCK_MONOTONIC, the clock of frames and deadlines.
#pragma once

#include <time.h>

#include <cstdint>

namespace ocellus::app {

inline int64_t monotonic_ns() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// Converts CLOCK_MONOTONIC to milliseconds since 1970.
inline int64_t wall_ms(int64_t at_ns) {
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  return (int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec - (monotonic_ns() - at_ns)) / 1'000'000;
}

}  // namespace ocellus::app

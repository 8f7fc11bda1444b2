// Monotonic time, in nanoseconds since an arbitrary start. Deadlines are absolute values of this clock.
#pragma once

#include <cstdint>

namespace ocellus {

int64_t now_ns();

/// Milliseconds between two readings.
inline double elapsed_ms(int64_t from_ns, int64_t to_ns) { return static_cast<double>(to_ns - from_ns) * 1e-6; }

}  // namespace ocellus

// Counts the calls of a program that allocate: heap, mappings, threads, device memory. The program links
// call_counter.cpp, which defines the allocation functions, so it is one of its own, and built without sanitizers,
// which define them too. Nothing of the test framework may run while calls are counted: it allocates.
#pragma once

#include <cstdint>

namespace ocellus::test {

enum Call { kMalloc, kCalloc, kRealloc, kFree, kAligned, kNew, kMap, kBreak, kThread, kCuda, kCallCount };

/// Counts the calls of all threads from zero while it lives.
class CallCounter {
 public:
  CallCounter();
  ~CallCounter();
  CallCounter(const CallCounter&) = delete;
  CallCounter& operator=(const CallCounter&) = delete;
};

int64_t calls_of(Call call);
/// All of them but the CUDA driver's own: it has threads that see to its affairs, and when a recording is started it
/// now and then takes a piece of host memory that it keeps. No way of calling it that was tried prevents this, so it is
/// counted apart, and tests bound it.
int64_t total_calls();
int64_t driver_calls();
inline constexpr int64_t kMaxDriverCalls = 64;
/// Shows which calls there were, and from where the first came; returns total_calls().
int64_t report_calls();

/// Free memory of the first GPU; 0 without one.
int64_t free_device_bytes();

}  // namespace ocellus::test

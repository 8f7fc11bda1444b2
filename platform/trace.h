// Tracing: named ranges of time, for a sink of the caller's and, in builds with CUDA, for NVIDIA's tools (NVTX).
// Without either a range costs a comparison or two.
#pragma once

#include <cstdint>

#include "platform/clock.h"

namespace ocellus {

/// Called when a range ends, on the thread that was in it, with now_ns() at both ends. `name` is a literal.
using TraceFunction = void (*)(void* user, const char* name, int64_t begin_ns, int64_t end_ns);

struct TraceSink {
  TraceFunction function = nullptr;
  void* user = nullptr;
};

/// Mark a range for an attached tool; do nothing without one, and in builds without CUDA.
void begin_tool_range(const char* name);
void end_tool_range();

/// A range as long as the object's lifetime. Ranges of a thread nest.
class TraceRange {
 public:
  TraceRange(const TraceSink& sink, const char* name) : sink_(sink), name_(name) {
    begin_tool_range(name);
    if (sink_.function != nullptr) begin_ns_ = now_ns();
  }
  ~TraceRange() {
    if (sink_.function != nullptr) sink_.function(sink_.user, name_, begin_ns_, now_ns());
    end_tool_range();
  }
  TraceRange(const TraceRange&) = delete;
  TraceRange& operator=(const TraceRange&) = delete;

 private:
  const TraceSink sink_;
  const char* const name_;
  int64_t begin_ns_ = 0;
};

}  // namespace ocellus

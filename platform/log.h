// The library never prints: the application may pass a sink for its messages.
#pragma once

#include <cstdint>

namespace ocellus {

enum class LogLevel : int32_t { kDebug = 0, kInfo = 1, kWarning = 2, kError = 3 };

/// Called on the reporting thread with a LogLevel; `text` is valid during the call only.
using LogFunction = void (*)(void* user, int32_t level, const char* text);

struct LogSink {
  LogFunction function = nullptr;
  void* user = nullptr;

  /// printf-style; at most 511 characters; does nothing without a function.
  void write(LogLevel level, const char* format, ...) const __attribute__((format(printf, 3, 4)));
};

}  // namespace ocellus

// A thread of an engine: named, with the engine's thread settings, and with all signals blocked.
#pragma once

#include <pthread.h>

#include <cstdint>

#include "platform/monitor.h"
#include "platform/status.h"

namespace ocellus {

struct ThreadSettings {
  static constexpr int kMaxCpus = 256;

  int32_t priority = 0;               // 1 to 99: SCHED_FIFO; 0: scheduled like the thread that starts it
  uint64_t cpus[kMaxCpus / 64] = {};  // a bit per allowed CPU; none: those of the thread that starts it
  bool touches_stack = false;         // the first kResidentStackBytes of the stack cause no page fault
  int64_t locked_bytes = 0;           // locks these, too; the total of all locked memory, for failure sentences; 0: no
                                      // locking

  bool chooses_cpus() const;
  bool may_use(int cpu) const { return (cpus[cpu / 64] >> (cpu % 64) & 1) != 0; }
  /// kBadArgument for a priority or a CPU that this machine does not have.
  Status check() const;
};

/// Upper bound of the stack that workers and library threads use (tests/runtime/engine/realtime_allocation_test.cpp).
inline constexpr int64_t kResidentStackBytes = int64_t{256} << 10;

/// Makes the calling thread's stack resident, to a depth or to its end.
void touch_stack();

/// Writes a zero to every page.
void touch_pages(void* memory, int64_t bytes);
/// Makes every page of the program or library that this code is part of resident: code and data.
void touch_code();

/// Locks the pages of these bytes. kIo if the system refuses: the sentence names the limit and says that `all_bytes`
/// are needed.
Status lock_pages(void* memory, int64_t bytes, int64_t all_bytes);
void unlock_pages(void* memory, int64_t bytes);

class Thread {
 public:
  Thread() = default;
  ~Thread() { join(); }
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;

  /// Runs main(argument). The name is "ocellus-" and `name`, of which the system keeps seven characters. Returns when
  /// the settings are in effect. kIo if the system refuses the thread or a setting, kBadArgument for a CPU that the
  /// process may not use; the thread then does not exist.
  Status start(const ThreadSettings& settings, const char* name, void (*main)(void*), void* argument);
  /// Waits for its end; does nothing if it was not started.
  void join();

 private:
  static void* enter(void* self);
  void prepare();
  bool is_as_wanted() const { return missing_cpu_ < 0 && lock_error_ == 0; }
  Status explain(int error) const;

  pthread_t thread_ = {};
  bool started_ = false;
  ThreadSettings settings_;
  char name_[16] = {};
  void (*main_)(void*) = nullptr;
  void* argument_ = nullptr;
  // Used by the thread only until it is prepared:
  void* stack_ = nullptr;  // the locked part
  int64_t stack_bytes_ = 0;
  int missing_cpu_ = -1;
  int lock_error_ = 0;
  Monitor monitor_;
  bool is_prepared_ = false;
};

}  // namespace ocellus

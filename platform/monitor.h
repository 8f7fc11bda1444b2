// A lock with a condition, for threads that hand work to each other. Every wait is for a running thread or for a time.
#pragma once

#include <pthread.h>

#include <cstdint>
#include <ctime>

namespace ocellus {

/// Satisfies std::lock_guard. Allocates nothing.
class Monitor {
 public:
  Monitor() {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);  // the time of day may jump
    pthread_cond_init(&changed_, &attributes);
    pthread_condattr_destroy(&attributes);
  }
  ~Monitor() { pthread_cond_destroy(&changed_); }
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  void lock() { pthread_mutex_lock(&mutex_); }
  void unlock() { pthread_mutex_unlock(&mutex_); }

  // Functions below: call them with the lock held; waits release it.

  /// Waits until notify_all(), or spuriously.
  void wait() { pthread_cond_wait(&changed_, &mutex_); }
  /// Waits at most this long.
  void wait_ms(int64_t milliseconds) {
    timespec until = {};
    clock_gettime(CLOCK_MONOTONIC, &until);
    const int64_t nanoseconds = until.tv_nsec + milliseconds % 1000 * 1000000;
    until.tv_sec += milliseconds / 1000 + nanoseconds / 1000000000;
    until.tv_nsec = nanoseconds % 1000000000;
    pthread_cond_timedwait(&changed_, &mutex_, &until);
  }
  void notify_all() { pthread_cond_broadcast(&changed_); }

 private:
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t changed_;
};

}  // namespace ocellus

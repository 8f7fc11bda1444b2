/* What our objects and libstdc++'s archive, compiled with a newer C library's headers, want beyond glibc 2.28: the one
 * that a wheel is for. Each is for the wheel's own use. */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define OWN __attribute__((visibility("hidden")))

/* Since 2.32: true lets reference counts go without atomic operations. */
OWN char __libc_single_threaded = 0;

/* Since 2.36, for std::random_device. */
OWN uint32_t arc4random(void) {
  uint32_t value = 0;
  if (getrandom(&value, sizeof value, 0) != (ssize_t)sizeof value) abort();
  return value;
}

/* Since 2.30. */
OWN pid_t gettid(void) { return (pid_t)syscall(SYS_gettid); }

/* Since 2.33: the same without a wrap at 2 GiB. */
OWN struct mallinfo2 mallinfo2(void) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  const struct mallinfo narrow = mallinfo();
#pragma GCC diagnostic pop
  struct mallinfo2 wide = {0};
  wide.arena = (unsigned)narrow.arena;
  wide.hblks = (unsigned)narrow.hblks;
  wide.hblkhd = (unsigned)narrow.hblkhd;
  wide.uordblks = (unsigned)narrow.uordblks;
  wide.fordblks = (unsigned)narrow.fordblks;
  wide.keepcost = (unsigned)narrow.keepcost;
  return wide;
}

/* Since 2.30, for waits of std::condition_variable by a steady clock. The condition itself knows the time of day alone;
 * a clock that is set meanwhile makes a wait longer or shorter once, and every caller looks at its own clock again. */
OWN int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                               const struct timespec* until) {
  struct timespec now, day;
  clock_gettime(clock, &now);
  clock_gettime(CLOCK_REALTIME, &day);
  day.tv_sec += until->tv_sec - now.tv_sec;
  day.tv_nsec += until->tv_nsec - now.tv_nsec;
  if (day.tv_nsec < 0) {
    day.tv_nsec += 1000000000;
    --day.tv_sec;
  } else if (day.tv_nsec >= 1000000000) {
    day.tv_nsec -= 1000000000;
    ++day.tv_sec;
  }
  return pthread_cond_timedwait(condition, mutex, &day);
}

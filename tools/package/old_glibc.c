/* What libstdc++'s archive wants of a C library that is newer than the one that a wheel is for. */
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

/* Since 2.32: true lets reference counts go without atomic operations. */
__attribute__((visibility("hidden"))) char __libc_single_threaded = 0;

/* Since 2.36, for std::random_device. */
__attribute__((visibility("hidden"))) uint32_t arc4random(void) {
  uint32_t value = 0;
  if (getrandom(&value, sizeof value, 0) != (ssize_t)sizeof value) abort();
  return value;
}

#include "tests/fuzz/heap_watch.h"

#include <atomic>
#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#define OCELLUS_HEAP_IS_WATCHED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define OCELLUS_HEAP_IS_WATCHED 1
#endif
#endif

#ifdef OCELLUS_HEAP_IS_WATCHED
// As sanitizer/allocator_interface.h has them, which GCC leaves out.
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*note_allocation)(const volatile void*, size_t),
                                                         void (*note_release)(const volatile void*));
extern "C" size_t __sanitizer_get_allocated_size(const volatile void* place);
#endif

namespace ocellus::fuzz {

#ifdef OCELLUS_HEAP_IS_WATCHED
namespace {

std::atomic<int64_t> now_bytes{0};
std::atomic<int64_t> most_bytes{0};

void note_allocation(const volatile void*, size_t bytes) {
  const int64_t now = now_bytes += static_cast<int64_t>(bytes);
  int64_t most = most_bytes;
  while (now > most && !most_bytes.compare_exchange_weak(most, now)) {
  }
}

void note_release(const volatile void* place) {
  now_bytes -= static_cast<int64_t>(__sanitizer_get_allocated_size(place));
}

}  // namespace

bool can_watch_heap() { return true; }

void begin_heap_watch() {
  static const int installed = __sanitizer_install_malloc_and_free_hooks(note_allocation, note_release);
  static_cast<void>(installed);
  now_bytes = 0;
  most_bytes = 0;
}

int64_t end_heap_watch() { return most_bytes; }

#else

bool can_watch_heap() { return false; }
void begin_heap_watch() {}
int64_t end_heap_watch() { return 0; }

#endif

}  // namespace ocellus::fuzz

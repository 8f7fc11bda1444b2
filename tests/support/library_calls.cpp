// Counts what happens inside calls of the library's steady state, in a program that does other things beside: heap and
// mappings, on the calling thread and on the library's own ones. The program links this file and wraps the calls
// (--wrap=ocellus_session_...); what was counted is told on stderr when it ends, as one line of JSON.
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "runtime/ocellus.h"

namespace {

std::atomic<long long> g_calls{0};        // number of watched library calls
std::atomic<long long> g_allocations{0};  // in them, and on the library's threads
std::atomic<long long> g_first_call{0};   // the call in which the last allocation was made
thread_local int t_depth = 0;
thread_local int t_is_library_thread = -1;  // not known yet

bool is_library_thread() {
  if (t_is_library_thread < 0) {
    char name[16] = "";
    pthread_getname_np(pthread_self(), name, sizeof name);
    t_is_library_thread = std::strncmp(name, "ocellus-", 8) == 0 ? 1 : 0;
  }
  return t_is_library_thread == 1;
}

void count() {
  if (t_depth == 0 && !is_library_thread()) return;
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  g_first_call.store(g_calls.load());
}

class Inside {
 public:
  Inside() {
    g_calls.fetch_add(1, std::memory_order_relaxed);
    ++t_depth;
  }
  ~Inside() { --t_depth; }
};

// Notifications to the program during a call are the program's own work.
struct OutsideText {
  ocellus_text_function function;
  void* user;
};
int leave_library(void* user, const char* text, int32_t text_bytes) {
  const auto* outside = static_cast<const OutsideText*>(user);
  const int depth = t_depth;
  t_depth = 0;
  const int stop = outside->function(outside->user, text, text_bytes);
  t_depth = depth;
  return stop;
}

__attribute__((destructor)) void tell() {
  std::fprintf(stderr, "{\"library_calls\": %lld, \"library_allocations\": %lld, \"last_at_call\": %lld}\n",
               g_calls.load(), g_allocations.load(), g_first_call.load());
}

}  // namespace

#if OCELLUS_HAS_MIMALLOC
#define OCELLUS_HEAP(function) mi_##function
#else
#define OCELLUS_HEAP(function) __libc_##function
#endif

extern "C" {

void* OCELLUS_HEAP(malloc)(size_t);
void* OCELLUS_HEAP(calloc)(size_t, size_t);
void* OCELLUS_HEAP(realloc)(void*, size_t);
void* OCELLUS_HEAP(memalign)(size_t, size_t);

void* malloc(size_t bytes) noexcept {
  count();
  return OCELLUS_HEAP(malloc)(bytes);
}
void* calloc(size_t items, size_t bytes) noexcept {
  count();
  return OCELLUS_HEAP(calloc)(items, bytes);
}
void* realloc(void* memory, size_t bytes) noexcept {
  count();
  return OCELLUS_HEAP(realloc)(memory, bytes);
}
void* memalign(size_t alignment, size_t bytes) noexcept {
  count();
  return OCELLUS_HEAP(memalign)(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) noexcept { return memalign(alignment, bytes); }
int posix_memalign(void** out, size_t alignment, size_t bytes) noexcept {
  *out = memalign(alignment, bytes);
  return *out == nullptr ? 12 : 0;  // ENOMEM
}
void* mmap(void* address, size_t bytes, int protection, int flags, int file, off_t offset) noexcept {
  count();
  return reinterpret_cast<void*>(::syscall(SYS_mmap, address, bytes, protection, flags, file, offset));
}

#define OCELLUS_WATCHED(name, parameters, ...) \
  ocellus_status __real_##name parameters;     \
  ocellus_status __wrap_##name parameters;     \
  ocellus_status __wrap_##name parameters {    \
    const Inside inside;                       \
    return __real_##name(__VA_ARGS__);         \
  }

OCELLUS_WATCHED(ocellus_session_reset, (ocellus_session * session), session)
OCELLUS_WATCHED(ocellus_session_mark, (ocellus_session * session), session)
OCELLUS_WATCHED(ocellus_session_rewind, (ocellus_session * session, int32_t* found), session, found)
OCELLUS_WATCHED(ocellus_session_begin_turn, (ocellus_session * session), session)
OCELLUS_WATCHED(ocellus_session_end_turn, (ocellus_session * session), session)
OCELLUS_WATCHED(ocellus_session_add_text, (ocellus_session * session, const char* text, int64_t bytes, uint32_t flags),
                session, text, bytes, flags)
OCELLUS_WATCHED(ocellus_session_add_parts,
                (ocellus_session * session, const ocellus_part* parts, int32_t count, int32_t* failed), session, parts,
                count, failed)

ocellus_status __real_ocellus_session_generate(ocellus_session*, const ocellus_generate_params*,
                                               ocellus_generate_stats*);
ocellus_status __wrap_ocellus_session_generate(ocellus_session* session, const ocellus_generate_params* params,
                                               ocellus_generate_stats* stats);
ocellus_status __wrap_ocellus_session_generate(ocellus_session* session, const ocellus_generate_params* params,
                                               ocellus_generate_stats* stats) {
  ocellus_generate_params inner = *params;
  OutsideText outside = {params->on_text, params->user};
  if (params->on_text != nullptr) {
    inner.on_text = leave_library;
    inner.user = &outside;
  }
  const Inside inside;
  return __real_ocellus_session_generate(session, &inner, stats);
}

}  // extern "C"

// mimalloc's own operators would not call malloc.
void* operator new(size_t bytes) {
  if (void* memory = malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void* operator new[](size_t bytes) { return ::operator new(bytes); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return malloc(bytes); }
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return malloc(bytes); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  if (void* memory = memalign(static_cast<size_t>(alignment), bytes)) return memory;
  throw std::bad_alloc();
}
void* operator new[](size_t bytes, std::align_val_t alignment) { return ::operator new(bytes, alignment); }

#include "tests/support/call_counter.h"

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <execinfo.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#if OCELLUS_HAS_CUDA
#include <cuda_runtime.h>

#include "runtime/ocellus.h"
#endif

namespace ocellus::test {
namespace {

constexpr const char* kCallNames[kCallCount] = {"malloc", "calloc", "realloc", "free",           "aligned allocation",
                                                "new",    "mmap",   "brk",     "pthread_create", "CUDA"};

std::atomic<bool> g_counting{false};
std::atomic<int64_t> g_calls[kCallCount];

/// The stacks of the first calls while counting, to be shown when there should have been none.
constexpr int kStackCount = 4;
constexpr int kStackDepth = 24;
void* g_stacks[kStackCount][kStackDepth];
int g_stack_depths[kStackCount];
std::atomic<int> g_stacks_used{0};

thread_local bool t_is_drivers = false;
std::atomic<int64_t> g_driver_calls{0};
/// Address range of the CUDA driver's code.
uintptr_t g_driver_first = 0, g_driver_end = 0;

int find_driver(dl_phdr_info* library, size_t, void*) {
  if (std::strstr(library->dlpi_name, "libcuda.so") == nullptr) return 0;
  g_driver_first = UINTPTR_MAX;
  g_driver_end = 0;
  for (int i = 0; i < library->dlpi_phnum; ++i) {
    if (library->dlpi_phdr[i].p_type != PT_LOAD) continue;
    const uintptr_t first = library->dlpi_addr + library->dlpi_phdr[i].p_vaddr;
    g_driver_first = std::min(g_driver_first, first);
    g_driver_end = std::max(g_driver_end, first + library->dlpi_phdr[i].p_memsz);
  }
  return 1;
}

void count(Call call, const void* caller = nullptr) {
  if (!g_counting.load(std::memory_order_relaxed)) return;
  const auto from = reinterpret_cast<uintptr_t>(caller);
  if (t_is_drivers || (from >= g_driver_first && from < g_driver_end)) {
    g_driver_calls.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  g_calls[call].fetch_add(1, std::memory_order_relaxed);
  if (call == kFree || g_stacks_used.load() >= kStackCount) return;
  const int index = g_stacks_used.fetch_add(1);
  if (index < kStackCount) g_stack_depths[index] = ::backtrace(g_stacks[index], kStackDepth);
}

/// Returns the next definition of a function, after ours. Looked up before main: dlsym itself may allocate.
template <class Function>
Function* next_definition(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

/// A start routine of a CUDA driver's thread, kept until the thread marks itself as one.
struct DriverThread {
  void* (*run)(void*);
  void* argument;
};
void* run_driver_thread(void* start) {
  t_is_drivers = true;
  const DriverThread thread = *static_cast<DriverThread*>(start);
  std::free(start);
  return thread.run(thread.argument);
}

using CreateThread = int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
CreateThread* g_create_thread = nullptr;
int (*g_brk)(void*) = nullptr;
void* (*g_sbrk)(intptr_t) = nullptr;

__attribute__((constructor)) void find_definitions() {
  g_create_thread = next_definition<CreateThread>("pthread_create");
  g_brk = next_definition<int(void*)>("brk");
  g_sbrk = next_definition<void*(intptr_t)>("sbrk");
  void* frames[2];
  ::backtrace(frames, 2);  // allocates at its first call
}

}  // namespace

CallCounter::CallCounter() {
  for (auto& calls : g_calls) calls.store(0);
  g_stacks_used.store(0);
  g_driver_calls.store(0);
  ::dl_iterate_phdr(find_driver, nullptr);
  g_counting.store(true);
}
CallCounter::~CallCounter() { g_counting.store(false); }

int64_t calls_of(Call call) { return g_calls[call].load(); }
int64_t driver_calls() { return g_driver_calls.load(); }
int64_t total_calls() {
  int64_t total = 0;
  for (const auto& calls : g_calls) total += calls.load();
  return total;
}

int64_t report_calls() {
  const int64_t total = total_calls();
  for (int i = 0; i < kCallCount; ++i)
    if (g_calls[i].load() != 0) MESSAGE(std::string(kCallNames[i]) << " was called " << g_calls[i].load() << " times");
  for (int i = 0; total != 0 && i < std::min(g_stacks_used.load(), kStackCount); ++i) {
    std::string stack = "one call came from";
    for (int k = 2; k < g_stack_depths[i]; ++k) {
      Dl_info where = {};
      if (::dladdr(g_stacks[i][k], &where) == 0) continue;
      const std::string file = where.dli_fname;
      char offset[32];  // argument of addr2line -f -C -e FILE: the library's names are hidden
      std::snprintf(offset, sizeof(offset), "+%#tx",
                    static_cast<char*>(g_stacks[i][k]) - static_cast<char*>(where.dli_fbase));
      stack +=
          "\n  " + file.substr(file.rfind('/') + 1) + " " + (where.dli_sname == nullptr ? offset : where.dli_sname);
    }
    MESSAGE(stack);
  }
  return total;
}

int64_t free_device_bytes() {
  size_t free = 0;
#if OCELLUS_HAS_CUDA
  size_t total = 0;
  if (ocellus_gpu_count() > 0) REQUIRE(cudaMemGetInfo(&free, &total) == cudaSuccess);
#endif
  return static_cast<int64_t>(free);
}

}  // namespace ocellus::test

using namespace ocellus::test;

extern "C" {

// glibc's own, under the names it keeps for programs that define malloc.
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void __libc_free(void*);
void* __libc_memalign(size_t, size_t);

void* malloc(size_t bytes) noexcept {
  count(kMalloc, __builtin_return_address(0));
  return __libc_malloc(bytes);
}
void* calloc(size_t items, size_t bytes) noexcept {
  count(kCalloc, __builtin_return_address(0));
  return __libc_calloc(items, bytes);
}
void* realloc(void* memory, size_t bytes) noexcept {
  count(kRealloc, __builtin_return_address(0));
  return __libc_realloc(memory, bytes);
}
void free(void* memory) noexcept {
  count(kFree, __builtin_return_address(0));
  __libc_free(memory);
}
void* memalign(size_t alignment, size_t bytes) noexcept {
  count(kAligned, __builtin_return_address(0));
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  count(kAligned, __builtin_return_address(0));
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** out, size_t alignment, size_t bytes) noexcept {
  count(kAligned, __builtin_return_address(0));
  *out = __libc_memalign(alignment, bytes);
  return *out == nullptr ? ENOMEM : 0;
}

void* mmap(void* address, size_t bytes, int protection, int flags, int file, off_t offset) noexcept {
  count(kMap, __builtin_return_address(0));
  return reinterpret_cast<void*>(::syscall(SYS_mmap, address, bytes, protection, flags, file, offset));
}
void* mmap64(void* address, size_t bytes, int protection, int flags, int file, off64_t offset) noexcept {
  return mmap(address, bytes, protection, flags, file, static_cast<off_t>(offset));
}
int munmap(void* address, size_t bytes) noexcept {
  count(kMap, __builtin_return_address(0));
  return static_cast<int>(::syscall(SYS_munmap, address, bytes));
}
void* mremap(void* address, size_t old_bytes, size_t bytes, int flags, ...) noexcept {
  count(kMap, __builtin_return_address(0));
  va_list arguments;
  va_start(arguments, flags);
  void* wanted = (flags & MREMAP_FIXED) != 0 ? va_arg(arguments, void*) : nullptr;
  va_end(arguments);
  return reinterpret_cast<void*>(::syscall(SYS_mremap, address, old_bytes, bytes, flags, wanted));
}
int brk(void* end) noexcept {
  count(kBreak, __builtin_return_address(0));
  return g_brk(end);
}
void* sbrk(intptr_t bytes) noexcept {
  count(kBreak, __builtin_return_address(0));
  return g_sbrk(bytes);
}
int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*), void* argument) noexcept {
  count(kThread);
  Dl_info caller = {};
  const bool known = ::dladdr(__builtin_return_address(0), &caller) != 0 && caller.dli_fname != nullptr;
  if (!known || std::strstr(caller.dli_fname, "libcuda.so") == nullptr)
    return g_create_thread(thread, attributes, run, argument);
  void* start = __libc_malloc(sizeof(DriverThread));
  if (start == nullptr) return ENOMEM;
  return g_create_thread(thread, attributes, run_driver_thread, new (start) DriverThread{run, argument});
}

}  // extern "C"

#if OCELLUS_HAS_CUDA
extern "C" {

// Functions that allocate device memory, or pin host memory. The linker redirects our calls here (--wrap).
cudaError_t __real_cudaMalloc(void** out, size_t bytes);
cudaError_t __real_cudaHostAlloc(void** out, size_t bytes, unsigned flags);
cudaError_t __real_cudaGraphInstantiate(cudaGraphExec_t* out, cudaGraph_t graph, unsigned long long flags);

cudaError_t __wrap_cudaMalloc(void** out, size_t bytes) {
  count(kCuda);
  return __real_cudaMalloc(out, bytes);
}
cudaError_t __wrap_cudaHostAlloc(void** out, size_t bytes, unsigned flags) {
  count(kCuda);
  return __real_cudaHostAlloc(out, bytes, flags);
}
cudaError_t __wrap_cudaGraphInstantiate(cudaGraphExec_t* out, cudaGraph_t graph, unsigned long long flags) {
  count(kCuda);
  return __real_cudaGraphInstantiate(out, graph, flags);
}

}  // extern "C"
#endif

void* operator new(size_t bytes) {
  count(kNew);
  if (void* memory = __libc_malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void* operator new[](size_t bytes) { return ::operator new(bytes); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  count(kNew);
  return __libc_malloc(bytes);
}
void* operator new[](size_t bytes, const std::nothrow_t& tag) noexcept { return ::operator new(bytes, tag); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  count(kNew);
  if (void* memory = __libc_memalign(static_cast<size_t>(alignment), bytes)) return memory;
  throw std::bad_alloc();
}
void* operator new[](size_t bytes, std::align_val_t alignment) { return ::operator new(bytes, alignment); }
void operator delete(void* memory) noexcept {
  count(kFree);
  __libc_free(memory);
}
void operator delete[](void* memory) noexcept { ::operator delete(memory); }
void operator delete(void* memory, size_t) noexcept { ::operator delete(memory); }
void operator delete[](void* memory, size_t) noexcept { ::operator delete(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { ::operator delete(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { ::operator delete(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { ::operator delete(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { ::operator delete(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { ::operator delete(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { ::operator delete(memory); }

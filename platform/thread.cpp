#include "platform/thread.h"

#include <alloca.h>
#include <link.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <mutex>

namespace ocellus {
namespace {

/// Systems may have larger pages; touching each several times costs nothing.
constexpr int64_t kSmallestPage = 4096;

uintptr_t page_floor(uintptr_t address) { return address / kSmallestPage * kSmallestPage; }

struct Span {
  void* first;
  size_t bytes;
};
Span pages_of(void* memory, int64_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(memory), first = page_floor(begin);
  return {reinterpret_cast<void*>(first), begin + static_cast<uintptr_t>(bytes) - first};
}

Status fail_to_lock(int error, int64_t all_bytes) {
  rlimit limit = {};
  (void)::getrlimit(RLIMIT_MEMLOCK, &limit);
  char allowed[32] = "no limit";
  if (limit.rlim_cur != RLIM_INFINITY)
    std::snprintf(allowed, sizeof allowed, "%" PRIu64, static_cast<uint64_t>(limit.rlim_cur));
  return OCELLUS_FAIL(Code::kIo,
                      "the system refused to lock memory (%s): %" PRId64
                      " bytes are needed, RLIMIT_MEMLOCK is %s; "
                      "raise it (ulimit -l, LimitMEMLOCK=), give the process CAP_IPC_LOCK, or do not lock memory",
                      std::strerror(error), all_bytes, allowed);
}

/// The calling thread's stack, without its guard. Empty if the system does not report it.
struct Stack {
  char* lowest = nullptr;
  char* end = nullptr;
};
Stack own_stack() {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return {};
  void* lowest = nullptr;
  size_t size = 0;
  const bool known = pthread_attr_getstack(&attributes, &lowest, &size) == 0;
  pthread_attr_destroy(&attributes);
  return known ? Stack{static_cast<char*>(lowest), static_cast<char*>(lowest) + size} : Stack{};
}

/// Returns how much of the stack below the caller can be made resident; the last pages are left out.
int64_t resident_stack_bytes(const Stack& stack) {
  constexpr int64_t kMargin = 32768;
  if (stack.lowest == nullptr) return 0;
  const int64_t left = static_cast<char*>(__builtin_frame_address(0)) - stack.lowest;
  return std::clamp(left - kMargin, int64_t{0}, kResidentStackBytes);
}

/// Signals raised by a thread itself stay unblocked: crash handlers must see them.
int create_without_signals(pthread_t* thread, const pthread_attr_t* attributes, void* (*main)(void*), void* argument) {
  sigset_t all, before;
  sigfillset(&all);
  for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS}) sigdelset(&all, own);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int error = pthread_create(thread, attributes, main, argument);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return error;
}

void fill_attributes(const ThreadSettings& settings, pthread_attr_t* attributes) {
  if (settings.priority > 0) {
    const sched_param param{.sched_priority = settings.priority};
    pthread_attr_setinheritsched(attributes, PTHREAD_EXPLICIT_SCHED);
    pthread_attr_setschedpolicy(attributes, SCHED_FIFO);
    pthread_attr_setschedparam(attributes, &param);
  }
  if (!settings.chooses_cpus()) return;
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  for (int cpu = 0; cpu < ThreadSettings::kMaxCpus; ++cpu)
    if (settings.may_use(cpu)) CPU_SET(cpu, &cpus);
  pthread_attr_setaffinity_np(attributes, sizeof cpus, &cpus);
}

/// Returns the first requested CPU that the calling thread did not get; -1 if there is none.
int find_missing_cpu(const ThreadSettings& settings) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (!settings.chooses_cpus() || sched_getaffinity(0, sizeof cpus, &cpus) != 0) return -1;
  for (int cpu = 0; cpu < ThreadSettings::kMaxCpus; ++cpu)
    if (settings.may_use(cpu) && !CPU_ISSET(cpu, &cpus)) return cpu;
  return -1;
}

int first_cpu(const ThreadSettings& settings) {
  int cpu = 0;
  while (cpu + 1 < ThreadSettings::kMaxCpus && !settings.may_use(cpu)) ++cpu;
  return cpu;
}

/// The segments of the object that holds this function.
int touch_own_segments(dl_phdr_info* object, size_t, void* found) {
  const auto here = reinterpret_cast<uintptr_t>(&touch_code);
  const auto begin = [object](const ElfW(Phdr) & segment) { return object->dlpi_addr + segment.p_vaddr; };
  const ElfW(Phdr)* const segments = object->dlpi_phdr;
  const ElfW(Phdr)* const end = segments + object->dlpi_phnum;
  const bool is_ours = std::any_of(segments, end, [&](const ElfW(Phdr) & s) {
    return s.p_type == PT_LOAD && here >= begin(s) && here < begin(s) + s.p_memsz;
  });
  if (!is_ours) return 0;
  for (const ElfW(Phdr)* s = segments; s != end; ++s) {
    if (s->p_type != PT_LOAD || (s->p_flags & PF_R) == 0) continue;
    const uintptr_t first = page_floor(begin(*s));
    for (uintptr_t at = first; at < begin(*s) + s->p_memsz; at += kSmallestPage)
      (void)*reinterpret_cast<const volatile char*>(std::max(at, static_cast<uintptr_t>(begin(*s))));
#ifdef MADV_POPULATE_WRITE
    // Touches writable pages so that none is copied at its first write. An older kernel refuses; the pages are then at
    // least read.
    if ((s->p_flags & PF_W) != 0)
      ::madvise(reinterpret_cast<void*>(first), begin(*s) + s->p_memsz - first, MADV_POPULATE_WRITE);
#endif
  }
  *static_cast<bool*>(found) = true;
  return 1;
}

}  // namespace

bool ThreadSettings::chooses_cpus() const {
  return std::any_of(std::begin(cpus), std::end(cpus), [](uint64_t word) { return word != 0; });
}

Status ThreadSettings::check() const {
  const int most = sched_get_priority_max(SCHED_FIFO);
  if (priority < 0 || priority > most)
    return OCELLUS_FAIL(Code::kBadArgument, "a thread's priority is 1 to %d, or 0 to leave it, not %d", most, priority);
  const long count = ::sysconf(_SC_NPROCESSORS_CONF);
  for (int cpu = 0; cpu < kMaxCpus; ++cpu)
    if (may_use(cpu) && cpu >= count)
      return OCELLUS_FAIL(Code::kBadArgument, "threads cannot run on CPU %d: this machine has the CPUs 0 to %ld", cpu,
                          count - 1);
  return {};
}

__attribute__((noinline)) void touch_stack() {
  const int64_t bytes = resident_stack_bytes(own_stack());
  if (bytes > 0) touch_pages(alloca(static_cast<size_t>(bytes)), bytes);
}

void touch_pages(void* memory, int64_t bytes) {
  auto* const first = static_cast<volatile char*>(memory);
  for (int64_t at = 0; at < bytes; at += kSmallestPage) first[at] = 0;
}

void touch_code() {
  bool found = false;
  ::dl_iterate_phdr(touch_own_segments, &found);
}

Status lock_pages(void* memory, int64_t bytes, int64_t all_bytes) {
  const Span pages = pages_of(memory, bytes);
  return bytes == 0 || ::mlock(pages.first, pages.bytes) == 0 ? Status() : fail_to_lock(errno, all_bytes);
}

void unlock_pages(void* memory, int64_t bytes) {
  const Span pages = pages_of(memory, bytes);
  if (bytes > 0) (void)::munlock(pages.first, pages.bytes);
}

Status Thread::start(const ThreadSettings& settings, const char* name, void (*main)(void*), void* argument) {
  settings_ = settings;
  std::snprintf(name_, sizeof name_, "ocellus-%s", name);
  main_ = main;
  argument_ = argument;
  stack_bytes_ = 0;
  missing_cpu_ = -1;
  lock_error_ = 0;
  is_prepared_ = false;
  pthread_attr_t attributes;
  int error = pthread_attr_init(&attributes);
  if (error == 0) {
    fill_attributes(settings, &attributes);
    error = create_without_signals(&thread_, &attributes, enter, this);
    pthread_attr_destroy(&attributes);
  }
  if (error != 0) return explain(error);
  started_ = true;
  {
    const std::lock_guard lock(monitor_);
    while (!is_prepared_) monitor_.wait();
  }
  if (is_as_wanted()) return {};
  join();
  return lock_error_ != 0 ? fail_to_lock(lock_error_, settings.locked_bytes) : explain(EINVAL);
}

void Thread::join() {
  if (started_) pthread_join(thread_, nullptr);
  started_ = false;
}

void* Thread::enter(void* self) {
  Thread& thread = *static_cast<Thread*>(self);
  thread.prepare();
  const bool runs = thread.is_as_wanted();
  {
    const std::lock_guard lock(thread.monitor_);
    thread.is_prepared_ = true;
    thread.monitor_.notify_all();
  }
  if (runs) thread.main_(thread.argument_);
  // The system may reuse this stack for another thread that does not want locked memory.
  unlock_pages(thread.stack_, thread.stack_bytes_);
  return nullptr;
}

void Thread::prepare() {
  pthread_setname_np(pthread_self(), name_);
  missing_cpu_ = find_missing_cpu(settings_);
  if (settings_.touches_stack || settings_.locked_bytes > 0) touch_stack();
  if (settings_.locked_bytes == 0) return;
  // Touches the stack to its end, where the thread's own variables are.
  const Stack stack = own_stack();
  char* const first = static_cast<char*>(__builtin_frame_address(0)) - resident_stack_bytes(stack);
  const Span pages = pages_of(first, stack.lowest == nullptr ? 0 : stack.end - first);
  if (::mlock(pages.first, pages.bytes) != 0) {
    lock_error_ = errno;
  } else {
    stack_ = pages.first;
    stack_bytes_ = static_cast<int64_t>(pages.bytes);
  }
}

Status Thread::explain(int error) const {
  if (error == EPERM && settings_.priority > 0)
    return OCELLUS_FAIL(Code::kIo,
                        "the system refused the real-time priority %d for threads: raise RLIMIT_RTPRIO to it (ulimit "
                        "-r, LimitRTPRIO=), give the process CAP_SYS_NICE, or leave the priority out",
                        settings_.priority);
  if (error == EINVAL && settings_.chooses_cpus()) {
    const int cpu = missing_cpu_ >= 0 ? missing_cpu_ : first_cpu(settings_);
    return OCELLUS_FAIL(Code::kBadArgument,
                        "threads cannot run on CPU %d: it is offline or not given to this process (taskset, cpuset)",
                        cpu);
  }
  return OCELLUS_FAIL(Code::kIo, "the system allows no more threads (%s): ask for fewer", std::strerror(error));
}

}  // namespace ocellus

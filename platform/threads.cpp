#include "platform/threads.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <new>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ocellus {
namespace {

// state_ holds [ job number | open | workers inside ]. A worker may enter only while the job is open, and the caller
// waits only for workers that entered: one that the system did not schedule in time delays nothing.
constexpr uint32_t kInsideMask = 0xFFFF;
constexpr uint32_t kOpen = 0x10000;
constexpr uint32_t kJobUnit = 0x20000;
constexpr uint32_t kJobMask = ~(kInsideMask | kOpen);

// Between two ops of a decode step a worker waits a few microseconds: spinning that long is cheaper than a sleep and a
// wake-up. After that it sleeps, so an idle engine uses no CPU.
constexpr int kSpins = 4000;

void pause_cpu() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

long call_futex(std::atomic<uint32_t>* word, int operation, uint32_t value) {
  static_assert(sizeof(*word) == sizeof(value));
  return syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, nullptr, nullptr, 0);
}

}  // namespace

// Replaces std::atomic's wait and notify_all, without throwing. Sequentially consistent on both sides: either the
// sleeper sees the new state or the waker sees the sleeper.
void ThreadPool::sleep_while(uint32_t state) {
  sleepers_.fetch_add(1);
  if (state_.load() == state) call_futex(&state_, FUTEX_WAIT, state);  // returns at once if it has changed
  sleepers_.fetch_sub(1);
}

void ThreadPool::wake_all() {
  if (sleepers_.load() > 0) call_futex(&state_, FUTEX_WAKE, INT_MAX);
}

Status ThreadPool::start(int thread_count, const ThreadSettings& settings) {
  if (thread_count < 1 || thread_count > kMaxThreads)
    return OCELLUS_FAIL(Code::kBadArgument, "threads must be between 1 and %d, not %d", kMaxThreads, thread_count);
  stop();
  if (thread_count == 1) return {};
  workers_.reset(new (std::nothrow) Worker[static_cast<size_t>(thread_count - 1)]);
  if (workers_ == nullptr) return OCELLUS_FAIL(Code::kIo, "the system has no memory for %d threads", thread_count);
  quit_.store(false);
  const auto main = [](void* self) { static_cast<Worker*>(self)->pool->serve(static_cast<Worker*>(self)->index); };
  for (; thread_count_ < thread_count; ++thread_count_) {
    Worker& worker = workers_[thread_count_ - 1];
    worker.pool = this;
    worker.index = thread_count_;
    char name[24];
    std::snprintf(name, sizeof name, "%d", thread_count_);
    const Status status = worker.thread.start(settings, name, main, &worker);
    if (status.ok()) continue;
    char started[48];
    std::snprintf(started, sizeof started, "thread %d of %d", thread_count_ + 1, thread_count);
    stop();
    return prefix_failure(status, started);
  }
  return {};
}

void ThreadPool::stop() {
  if (thread_count_ > 1) {
    quit_.store(true);
    state_.fetch_add(kJobUnit);
    wake_all();
    for (int i = 1; i < thread_count_; ++i) workers_[i - 1].thread.join();
  }
  workers_.reset();
  thread_count_ = 1;
}

void ThreadPool::run_erased(int64_t count, int64_t grain, Function function, void* context) {
  function_ = function;
  context_ = context;
  count_ = count;
  grain_ = std::max<int64_t>(grain, 1);
  next_.store(0, std::memory_order_relaxed);
  const uint32_t job = (state_.load(std::memory_order_relaxed) & kJobMask) + kJobUnit;
  // Sequentially consistent, because wake_all then checks for sleepers.
  state_.store(job | kOpen, std::memory_order_seq_cst);
  wake_all();
  take_pieces(0);
  // Closes the job to late workers; those inside finish their pieces.
  state_.fetch_and(~kOpen, std::memory_order_relaxed);
  wait_for_workers();
}

/// Spins, then sleeps: otherwise a caller of a higher real-time priority would keep a worker on the same CPU from ever
/// finishing, since yielding lets only equal priorities run.
void ThreadPool::wait_for_workers() {
  for (int spin = 0; (state_.load(std::memory_order_acquire) & kInsideMask) != 0; ++spin) {
    pause_cpu();
    if (spin < kSpins) continue;
    // Sequentially consistent, as is leaving: either this thread sees that the last worker has left, or the worker sees
    // that the caller sleeps. An exchange is so under QEMU, too, which on x86 lets a load overtake a store of aarch64.
    (void)caller_sleeps_.exchange(1);
    if ((state_.load() & kInsideMask) != 0) call_futex(&caller_sleeps_, FUTEX_WAIT, 1);
    caller_sleeps_.store(0);
  }
}

void ThreadPool::leave_job() {
  const bool is_last = (state_.fetch_sub(1) & kInsideMask) == 1;
  if (!is_last || caller_sleeps_.load() == 0) return;
  caller_sleeps_.store(0);
  call_futex(&caller_sleeps_, FUTEX_WAKE, 1);
}

void ThreadPool::take_pieces(int worker) {
  for (;;) {
    const int64_t begin = next_.fetch_add(grain_, std::memory_order_relaxed);
    if (begin >= count_) return;
    function_(context_, begin, std::min(begin + grain_, count_), worker);
  }
}

/// Enters the open job unless this worker has already served it.
bool ThreadPool::enter_job(uint32_t* last_job) {
  uint32_t state = state_.load(std::memory_order_relaxed);
  while ((state & kOpen) != 0 && (state & kJobMask) != *last_job) {
    if (!state_.compare_exchange_weak(state, state + 1, std::memory_order_acquire)) continue;
    *last_job = state & kJobMask;
    return true;
  }
  return false;
}

void ThreadPool::serve(int worker) {
  uint32_t last_job = 0;
  int spins = 0;
  while (!quit_.load(std::memory_order_relaxed)) {
    if (enter_job(&last_job)) {
      take_pieces(worker);
      leave_job();
      spins = 0;
    } else if (++spins < kSpins) {
      pause_cpu();
    } else {
      // Acquire: with the state that stop() leaves, quit_ must be seen, too, or this worker would sleep forever.
      const uint32_t state = state_.load(std::memory_order_acquire);
      const bool open = (state & kOpen) != 0 && (state & kJobMask) != last_job;
      if (!open && !quit_.load()) sleep_while(state);
    }
  }
}

}  // namespace ocellus

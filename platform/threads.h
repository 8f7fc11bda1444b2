// A fixed pool of worker threads, created once. Running work allocates nothing and creates no thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "platform/set_up_memory.h"
#include "platform/status.h"
#include "platform/thread.h"

namespace ocellus {

class ThreadPool {
 public:
  static constexpr int kMaxThreads = 256;

  ThreadPool() = default;
  ~ThreadPool() { stop(); }
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  /// Starts `thread_count` - 1 workers, "ocellus-1" and so on; the calling thread is worker 0 and stays unchanged.
  /// kBadArgument outside 1..kMaxThreads, else as Thread::start: those already started are then joined, and one thread
  /// remains usable.
  Status start(int thread_count, const ThreadSettings& settings = {});
  void stop();
  int thread_count() const { return thread_count_; }

  /// Calls body(begin, end, worker) over [0, count) in pieces of at most `grain`, on all threads, and returns when
  /// all are done. Pieces are handed out in order; which worker gets which is not fixed, so results must not
  /// depend on it. Not reentrant, one caller at a time.
  template <class Body>
  void run(int64_t count, int64_t grain, Body&& body) {
    if (count <= 0) return;
    if (thread_count_ <= 1 || count <= grain) {
      body(int64_t{0}, count, 0);
      return;
    }
    using Plain = std::remove_reference_t<Body>;
    run_erased(
        count, grain,
        [](void* context, int64_t begin, int64_t end, int worker) {
          (*static_cast<Plain*>(context))(begin, end, worker);
        },
        const_cast<void*>(static_cast<const void*>(&body)));
  }

 private:
  using Function = void (*)(void* context, int64_t begin, int64_t end, int worker);

  void run_erased(int64_t count, int64_t grain, Function function, void* context);
  void take_pieces(int worker);
  bool enter_job(uint32_t* last_job);
  void leave_job();
  void wait_for_workers();
  void serve(int worker);
  void sleep_while(uint32_t state);
  void wake_all();

  struct Worker : SetUpObject {
    ThreadPool* pool;
    int index;
    Thread thread;
  };
  int thread_count_ = 1;
  std::unique_ptr<Worker[]> workers_;

  // The current job. Written by the caller while no worker is inside, read by workers after they entered.
  Function function_ = nullptr;
  void* context_ = nullptr;
  int64_t count_ = 0;
  int64_t grain_ = 1;

  // Number of the job, whether it is open, and how many workers are inside: see threads.cpp. These lie on cache
  // lines of their own because different threads write them at the same time.
  alignas(64) std::atomic<uint32_t> state_{0};
  alignas(64) std::atomic<int64_t> next_{0};
  std::atomic<bool> quit_{false};
  std::atomic<int32_t> sleepers_{0};
  std::atomic<uint32_t> caller_sleeps_{0};  // until the last worker has left the job
};

}  // namespace ocellus

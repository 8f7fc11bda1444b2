// Queue: executes ops in order. It holds the threads or the stream, the first failure, and stop requests. After a
// failure or a stop, later ops do nothing and status() reports the first cause, so model code reads as a plain list of
// ops. On the CPU an op is done when it returns; on CUDA it is done when finish() has returned.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>

#include "platform/clock.h"
#include "platform/device.h"
#include "platform/status.h"
#include "platform/threads.h"

namespace ocellus {

/// A stop requested by another thread or by a deadline; checked between layers.
class StopSignal {
 public:
  /// Thread-safe. Stays set until acknowledged, so that a cancellation between two calls is not lost.
  void cancel() { cancelled_.store(true, std::memory_order_release); }
  /// The acknowledging thread sees the cancelling thread's earlier writes.
  void acknowledge() { cancelled_.exchange(false, std::memory_order_acquire); }
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }

  /// Absolute now_ns(); 0: none.
  void set_deadline(int64_t deadline_ns) { deadline_ns_ = deadline_ns; }
  int64_t deadline_ns() const { return deadline_ns_; }
  bool deadline_passed() const { return deadline_ns_ != 0 && now_ns() >= deadline_ns_; }

  /// Returns kCancelled, kDeadline or ok.
  Status check() const;

 private:
  std::atomic<bool> cancelled_{false};
  int64_t deadline_ns_ = 0;
};

/// Base of what ops keep between their calls on a GPU. Whoever provides the ops derives from it and reads it back.
class OpMemory {
 protected:
  ~OpMemory() = default;
};

class Queue {
 public:
  explicit Queue(ThreadPool& pool) : pool_(&pool) {}

  /// Makes later ops run on this GPU. Both must outlive the queue; ops that keep nothing between calls run without.
  void use_cuda(CudaDevice* device, OpMemory* op_memory) {
    cuda_ = device;
    op_memory_ = op_memory;
    shares_memory_ = device->facts().integrated;
  }
  /// Called at the beginning of every API call: the thread may be another one than last time.
  void enter() {
    if (cuda_ != nullptr) fail(cuda_->make_current());
  }
  bool on_cuda() const { return cuda_ != nullptr; }
  CudaDevice* cuda() const { return cuda_; }
  OpMemory* op_memory() const { return op_memory_; }
  DeviceTraits traits() const;
  /// Makes later ops use little scratch; see DeviceTraits.
  void set_lean(bool lean) { lean_ = lean; }
  void set_cpu_math(CpuMath math) { cpu_math_ = math; }
  /// Ops of decode steps are so; see DeviceTraits.
  void set_batch_invariant(bool invariant) { batch_invariant_ = invariant; }
  /// After use_cuda(), which takes what is usual for the GPU; see DeviceTraits.
  void set_shares_memory(bool shares) { shares_memory_ = shares; }
  int thread_count() const { return pool_->thread_count(); }

  /// Runs a CPU op; does nothing after a failure.
  template <class Body>
  void parallel(int64_t count, int64_t grain, Body&& body) {
    if (status_.ok()) pool_->run(count, grain, body);
  }

  /// Copies in the order of the ops, between any two places. Host memory must be pinned, and unchanged until the copy
  /// is done. Does nothing if the places are the same.
  void copy(void* to, const void* from, int64_t bytes);
  /// True if the caller's memory is that of the queue's GPU; false for the host's. kBadArgument: another GPU's.
  Status find_memory(const void* memory, bool* on_device) const {
    *on_device = false;
    return cuda_ == nullptr ? Status() : cuda_->find_memory(memory, on_device);
  }
  /// Later ops come after what CUDA's legacy default stream has been given so far.
  void follow_default_stream() {
    if (status_.ok() && cuda_ != nullptr) fail(cuda_->follow_default_stream());
  }
  /// Packs rows that are `stride_bytes` apart; both places are memory that the GPU reaches. CUDA only.
  void copy_rows(void* to, const void* from, int64_t stride_bytes, int64_t row_bytes, int64_t rows) {
    if (status_.ok() && rows > 0) fail(cuda_->copy_rows(to, from, stride_bytes, row_bytes, rows));
  }
  /// Updates the device's side of staged rows, values [0, count) of one row; does nothing if memory is shared. `Staged`
  /// is a StagedRows.
  template <class Staged>
  void upload(const Staged& rows, int64_t count) {
    if (rows.device.data != rows.host.data)
      copy(rows.device.data, rows.host.data, count * static_cast<int64_t>(sizeof *rows.host.data));
  }

  /// Waits until every op is done; returns the first failure.
  Status finish();

  /// Host memory passed to copy() may be written again after wait_for_copies(), which waits only for the copies before
  /// the latest note_copies().
  void note_copies();
  void wait_for_copies();

  /// Copies concurrently with the ops, from pinned host memory: begin_transfers(), transfer() for each,
  /// end_transfers(). On CUDA they start after the ops so far and overlap later ones; their data is available to ops
  /// after join_transfers() and when finish() has returned. On the CPU they are done at once. `ticket`, below kTickets,
  /// identifies them in later queries whether host memory may be written again, also after a failure; it may be reused
  /// after that.
  void begin_transfers();
  void transfer(void* to, const void* from, int64_t bytes);
  void end_transfers(int ticket);
  void join_transfers();
  bool transfers_done(int ticket) const;
  void wait_for_transfers(int ticket);

  /// Time from one point in the order of the ops to another. timer_ms() waits until the second is reached. Whoever
  /// drives the queue says what each of kTimers, from 0, is for.
  static constexpr int kTimers = 2;
  enum class Timer : int {};
  void start_timer(Timer timer);
  void stop_timer(Timer timer);
  double timer_ms(Timer timer);

  bool ok() const { return status_.ok(); }
  /// Keeps the first failure only.
  void fail(Status status) {
    if (status_.ok()) status_ = status;
  }
  Status status() const { return status_; }
  /// After a failure: waits for pending work and clears the failure.
  void clear();

  /// Called between layers: turns a cancellation or a passed deadline into the queue's failure. On CUDA it also keeps
  /// the host at most kLayersAhead layers ahead of the device, so that a stop takes effect soon.
  bool stopped(const StopSignal* signal);

  /// Records ops instead of running them, until end_capture() makes a graph of them. CUDA only.
  Status begin_capture();
  Status end_capture(CudaGraph* out);
  void launch(const CudaGraph& graph);

 private:
  // Marks of the device: the layers begun, then two for each timer, then the copies; the last two are its own.
  static constexpr int kLayersAhead = 4;
  static constexpr int kFirstTimerMark = kLayersAhead;
  static constexpr int kCopiesMark = kFirstTimerMark + 2 * kTimers;
  static constexpr int kFirstFreeMark = kCopiesMark + 1;

 public:
  /// The user of the queue may use marks from here on: kResultMarks of them.
  static constexpr int kResultMarks = 4;
  static constexpr int kTickets = 2;
  void record_result(int64_t step) { mark(kFirstFreeMark + static_cast<int>(step % kResultMarks)); }
  void wait_for_result(int64_t step) { wait(kFirstFreeMark + static_cast<int>(step % kResultMarks)); }

 private:
  // Begin and end of concurrent copies.
  static constexpr int kBesideMark = kFirstFreeMark + kResultMarks;
  static constexpr int kFirstTicketMark = kBesideMark + 1;
  static_assert(kFirstTicketMark + kTickets <= CudaDevice::kMarks - 2);

  /// Marks of the point where a timer starts; the next is where it stops.
  static constexpr int mark_of(Timer timer) { return kFirstTimerMark + 2 * static_cast<int>(timer); }
  void mark(int number) {
    if (status_.ok() && cuda_ != nullptr) fail(cuda_->record_mark(number));
  }
  void wait(int number) {
    if (status_.ok() && cuda_ != nullptr) fail(cuda_->wait_for_mark(number));
  }

  ThreadPool* pool_;
  CudaDevice* cuda_ = nullptr;
  OpMemory* op_memory_ = nullptr;
  bool lean_ = false;
  bool batch_invariant_ = false;
  CpuMath cpu_math_ = CpuMath::kF16;
  bool shares_memory_ = true;
  int64_t layers_begun_ = 0;
  bool copies_noted_ = false;
  int unjoined_ticket_ = -1;  // the latest one that no op waits for yet
  int64_t timer_ns_[kTimers][2] = {};
  Status status_;
};

}  // namespace ocellus

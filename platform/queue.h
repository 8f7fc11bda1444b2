// Queue: where ops go. It carries the threads (or the stream), the first failure, and the wish to stop. Once
// something has failed or a stop was asked for, later ops do nothing and status() reports the first cause, so
// model code reads as a plain list of ops.
#pragma once

#include <atomic>
#include <cstdint>

#include "platform/clock.h"
#include "platform/status.h"
#include "platform/threads.h"

namespace ocellus {

enum class DeviceKind : uint8_t { kCpu, kCuda };

/// Asked for by another thread or by a deadline; looked at between layers.
class StopSignal {
 public:
  /// From any thread. Stays set until acknowledged, so that a cancellation between two calls is not lost.
  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }
  void acknowledge() { cancelled_.store(false, std::memory_order_relaxed); }
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }

  /// Absolute now_ns(); 0 means none.
  void set_deadline(int64_t deadline_ns) { deadline_ns_ = deadline_ns; }
  int64_t deadline_ns() const { return deadline_ns_; }
  bool deadline_passed() const { return deadline_ns_ != 0 && now_ns() >= deadline_ns_; }

  /// kCancelled, kDeadline or ok.
  Status check() const;

 private:
  std::atomic<bool> cancelled_{false};
  int64_t deadline_ns_ = 0;
};

class Queue {
 public:
  explicit Queue(ThreadPool& pool) : pool_(&pool) {}

  DeviceKind device() const { return DeviceKind::kCpu; }
  ThreadPool& pool() { return *pool_; }
  int thread_count() const { return pool_->thread_count(); }

  /// CPU ops run through here; nothing happens after a failure.
  template <class Body>
  void parallel(int64_t count, int64_t grain, Body&& body) {
    if (status_.ok()) pool_->run(count, grain, body);
  }

  bool ok() const { return status_.ok(); }
  /// Keeps the first failure only.
  void fail(Status status) {
    if (status_.ok()) status_ = status;
  }
  Status status() const { return status_; }
  void clear() { status_ = Status(); }

  /// Called between layers: turns a cancellation or a passed deadline into the queue's failure.
  bool stopped(const StopSignal* signal);

 private:
  ThreadPool* pool_;
  Status status_;
};

}  // namespace ocellus

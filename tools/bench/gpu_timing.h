// Shared by the GPU timing programs: a device with filled memory, and the time of successive calls.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "platform/arena.h"
#include "platform/queue.h"
#include "quant/weight_format.h"

namespace ocellus::bench {

/// Ends the program on a failure.
inline void require(Status status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", last_failure().sentence);
  std::exit(2);
}

/// One GPU and its memory, which every shape reuses from the start.
class Gpu {
 public:
  explicit Gpu(int index, int64_t memory_bytes = int64_t{1} << 30) : memory_bytes_(memory_bytes) {
    require(pool_.start(1));
    require(CudaDevice::open(index, nullptr, &device_));
    require(device_->allocate_device(memory_bytes_, &memory_));
    require(device_->allocate_pinned(kStagingBytes, &staging_));
    queue_.use_cuda(device_.get(), nullptr);
  }
  Queue& queue() { return queue_; }
  const char* name() const { return device_->facts().name; }

  /// Bytes per second, reads plus writes.
  double copy_rate() {
    double rate = 0;
    require(device_->measure_copy_rate(memory_, memory_bytes_, &rate));
    return rate;
  }

  /// Fills all memory with these values, repeated.
  void fill(const std::vector<Half>& values) {
    Half* const halves = reinterpret_cast<Half*>(staging_);
    for (int64_t i = 0; i < kStagingBytes / 2; ++i) halves[i] = values[static_cast<size_t>(i) % values.size()];
    for (int64_t at = 0; at < memory_bytes_; at += kStagingBytes) queue_.copy(memory_ + at, halves, kStagingBytes);
    require(queue_.finish());
  }
  /// Fills with normal f16 values of an odd period, so that rows differ.
  void fill_normal() {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    std::vector<Half> drawn((1 << 18) - 1);
    for (Half& value : drawn) value = float_to_half(normal(random));
    fill(drawn);
  }

  void take_from_start() { used_ = 0; }
  template <class T>
  T* take(int64_t count) {
    T* const taken = reinterpret_cast<T*>(memory_ + used_);
    used_ += aligned_bytes(count * static_cast<int64_t>(sizeof(T)));
    if (used_ > memory_bytes_) std::abort();
    return taken;
  }
  template <class T>
  DeviceView<T> take_rows(int64_t rows, int64_t cols) {
    return {take<T>(rows * cols), rows, cols};
  }
  template <class T>
  const T* upload(const std::vector<T>& values) {
    T* const to = take<T>(static_cast<int64_t>(values.size()));
    const size_t bytes = values.size() * sizeof(T);
    std::memcpy(staging_, values.data(), bytes);
    queue_.copy(to, staging_, static_cast<int64_t>(bytes));
    require(queue_.finish());
    return to;
  }

 private:
  static constexpr int64_t kStagingBytes = int64_t{16} << 20;

  const int64_t memory_bytes_;
  ThreadPool pool_;
  std::unique_ptr<CudaDevice> device_;
  Queue queue_{pool_};
  std::byte* memory_ = nullptr;
  std::byte* staging_ = nullptr;
  int64_t used_ = 0;
};

/// Returns the microseconds of one of `calls` calls, call(0), call(1), ..., that are recorded and run without a pause:
/// one value per launch of the recording, sorted.
template <class Call>
std::vector<double> call_times(int64_t calls, int launches, Queue& queue, Call call) {
  constexpr Queue::Timer kTimer{0};
  CudaGraph graph;
  require(queue.begin_capture());
  for (int64_t i = 0; i < calls; ++i) call(i);
  require(queue.end_capture(&graph));
  std::vector<double> times;
  for (int i = 0; i < launches; ++i) {
    queue.start_timer(kTimer);
    queue.launch(graph);
    queue.stop_timer(kTimer);
    require(queue.finish());
    times.push_back(queue.timer_ms(kTimer) * 1e3 / static_cast<double>(calls));
  }
  std::sort(times.begin(), times.end());
  return times;
}

/// Median of sorted values.
inline double median(const std::vector<double>& times) { return times[times.size() / 2]; }

}  // namespace ocellus::bench

// Devices: the CPU, or one CUDA GPU. Needs no CUDA headers, so that every layer can refer to devices in builds without
// CUDA; these never find a CUDA device.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "platform/set_up_memory.h"
#include "platform/status.h"
#include "platform/views.h"

namespace ocellus {

enum class DeviceKind : uint8_t { kCpu, kCuda };

/// Arithmetic of a CPU's products of half-precision values, where it has more than one: with what F16 holds of each, or
/// rounded to bf16 where that is faster (Zen 4, AMX).
enum class CpuMath : uint8_t { kF16, kBf16 };

/// Properties that plans depend on: sizes of scratch, types of activations, and whether staged rows exist once or
/// twice.
struct DeviceTraits {
  DeviceKind kind = DeviceKind::kCpu;
  int32_t thread_count = 1;   // threads of the CPU's thread pool
  bool shares_memory = true;  // the device reads host rows directly: the CPU itself, usually GPUs on the same chip
  bool maps_weights = false;  // weights are host rows, too; GPUs on the same chip do not cache those: not usual
  bool lean = false;          // less scratch and more time
  CpuMath cpu_math = CpuMath::kF16;
  /// A row of a decode step, of at most kInvariantRows, has the same bits whatever the others: "batch invariance". It
  /// takes time; steps of a few rows on the CPU are so anyway.
  bool batch_invariant = false;
  static constexpr int64_t kInvariantRows = 64;

  DeviceTraits() = default;
  /// The CPU with this many threads.
  DeviceTraits(int32_t threads) : thread_count(threads) {}
  bool is_cuda() const { return kind == DeviceKind::kCuda; }
  ActivationType activations() const { return is_cuda() ? ActivationType::kF16 : ActivationType::kF32; }

  /// True if rows go through the parts of a layer in blocks, and views one by one, which keeps the widest buffers
  /// small. A GPU otherwise takes all rows of a layer and many views at once. Blocks of the CPU are wide enough for
  /// full speed of the matrix product (measured, tools/bench/notes/cpu.md); lean ones have the size that a GPU
  /// multiplies by weights in their file format, so that none are decoded.
  bool in_blocks() const { return !is_cuda() || lean; }
  int64_t block_rows(int64_t rows) const { return in_blocks() ? std::min(lean ? kLeanRows : kCpuRows, rows) : rows; }
  static constexpr int64_t kCpuRows = 128, kLeanRows = 64;
};

/// Facts of one CUDA device, as the driver reports them.
struct CudaFacts {
  char name[64] = {};
  int32_t index = 0;
  int32_t major = 0, minor = 0;  // compute capability
  int32_t code_capability = 0;   // the kernels', 87 for 8.7: that of older PTX, if they are; set by open()
  int32_t multiprocessors = 0;
  int32_t driver_version = 0, runtime_version = 0;  // 13000 is 13.0
  int32_t clock_khz = 0, memory_clock_khz = 0;      // 0 if the driver does not report them
  bool integrated = false;                          // shares the host's memory (Jetson)
  int64_t memory_bytes = 0;
  int64_t free_bytes = 0;
  int64_t l2_bytes = 0;
};

/// Returns 0 in builds without CUDA, without a driver and without a GPU.
int cuda_device_count();
bool built_with_cuda();
/// kUnsupported without CUDA, kBadArgument for an index that does not exist, kDevice if the driver fails.
Status read_cuda_facts(int index, CudaFacts* out);

/// A recorded sequence of device work that can be launched with one call.
class CudaGraph : public SetUpObject {
 public:
  CudaGraph() = default;
  ~CudaGraph();
  CudaGraph(CudaGraph&& other) noexcept : executable_(other.executable_) { other.executable_ = nullptr; }
  CudaGraph& operator=(CudaGraph&& other) noexcept {
    std::swap(executable_, other.executable_);
    return *this;
  }
  bool ready() const { return executable_ != nullptr; }

 private:
  friend class CudaDevice;
  void* executable_ = nullptr;  // cudaGraphExec_t
};

/// One GPU with one stream for its work and one for concurrent copies. All of CUDA's memory is allocated in open() and
/// in the two allocate functions; nothing else here allocates.
class CudaDevice : public SetUpObject {
 public:
  /// Marks that can be waited for; recording a mark again replaces its position.
  static constexpr int kMarks = 20;

  /// Opens the device, loads every kernel of the library, and works on `stream` (a cudaStream_t) or, if that is null,
  /// on a stream of its own.
  static Status open(int index, void* stream, std::unique_ptr<CudaDevice>* out);
  ~CudaDevice();
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  const CudaFacts& facts() const { return facts_; }
  void* stream() const { return stream_; }

  /// CUDA's current device belongs to the thread: call this first on another thread, or after using another GPU.
  Status make_current();

  /// Device memory, and pinned host memory that the device can read and write. Freed with the device.
  Status allocate_device(int64_t bytes, std::byte** out);
  Status allocate_pinned(int64_t bytes, std::byte** out);

  /// kBadArgument unless kernels can read and write this memory of the caller.
  Status check_reachable(const void* memory) const;

  /// True if the caller's memory is this GPU's own, false for the host's. kBadArgument for another GPU's.
  Status find_memory(const void* memory, bool* on_device) const;

  /// Device memory taken outside allocate_device() since open() began: context, kernels, library handles, graphs.
  /// Other processes on the device blur the figure. -1 if it cannot be read.
  int64_t outside_bytes() const;
  /// Returns bytes per second of a large copy inside the device, reads plus writes. Uses `scratch`.
  Status measure_copy_rate(std::byte* scratch, int64_t bytes, double* out);

  // Operations in the order of the stream; CUDA's errors are returned as kDevice with CUDA's number.
  Status copy(void* to, const void* from, int64_t bytes);
  /// Packs `rows` rows of `row_bytes` that are `stride_bytes` apart.
  Status copy_rows(void* to, const void* from, int64_t stride_bytes, int64_t row_bytes, int64_t rows);
  /// Later work comes after what the legacy default stream has been given so far.
  Status follow_default_stream();
  Status fill(void* to, uint8_t value, int64_t bytes);
  Status finish();
  Status record_mark(int mark);
  Status wait_for_mark(int mark);
  double elapsed_ms(int first_mark, int last_mark);
  Status begin_capture();
  Status end_capture(CudaGraph* out);
  Status launch(const CudaGraph& graph);

  // Copies on the second stream. Each stream can be made to wait for a point of the other, without the host waiting:
  // later work on it comes after the other's work so far.
  Status copy_beside(void* to, const void* from, int64_t bytes);
  Status record_mark_beside(int mark);
  /// `mark` is overwritten.
  Status order_beside_after_work(int mark);
  Status order_work_after_mark(int mark);
  /// True if a mark was reached, or was never recorded.
  bool mark_reached(int mark) const;
  bool capturing() const { return capturing_; }

 private:
  CudaDevice() = default;
  CudaFacts facts_;
  void* stream_ = nullptr;
  void* copy_stream_ = nullptr;
  bool owns_stream_ = false;
  bool capturing_ = false;
  void* marks_[kMarks] = {};  // cudaEvent_t
  std::byte* device_memory_[4] = {};
  std::byte* pinned_memory_[4] = {};
  int device_count_ = 0, pinned_count_ = 0;
  int64_t allocated_bytes_ = 0;
  int64_t used_before_ = -1;
};

}  // namespace ocellus

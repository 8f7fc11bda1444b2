#include <cuda_runtime.h>
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <new>

#include "platform/cuda_kernels.h"
#include "platform/device.h"

namespace ocellus {
namespace {

Status check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return {};
  const Status status = OCELLUS_FAIL(Code::kDevice, "%s: %s", what, cudaGetErrorString(error));
  set_device_error(static_cast<int32_t>(error));
  return status;
}

/// Returns the memory in use on a GPU by all processes, from the driver's management library, which needs no CUDA
/// context: only this shows the context's own size. -1 if there is no such library (Jetson).
int64_t managed_used_bytes(int index) {
  struct MemoryInfo {
    unsigned long long total, free, used;
  };
  void* library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return -1;
  const auto init = reinterpret_cast<int (*)()>(::dlsym(library, "nvmlInit_v2"));
  const auto by_bus =
      reinterpret_cast<int (*)(const char*, void**)>(::dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2"));
  const auto memory = reinterpret_cast<int (*)(void*, MemoryInfo*)>(::dlsym(library, "nvmlDeviceGetMemoryInfo"));
  int64_t used = -1;
  char bus[32] = {};
  void* device = nullptr;
  MemoryInfo info{};
  if (init != nullptr && by_bus != nullptr && memory != nullptr && init() == 0 &&
      cudaDeviceGetPCIBusId(bus, sizeof bus, index) == cudaSuccess && by_bus(bus, &device) == 0 &&
      memory(device, &info) == 0)
    used = static_cast<int64_t>(info.used);
  return used;  // the library stays open: the second reading needs it again
}

/// Returns the memory in use before this process first opened the device: its context stays from then on.
int64_t used_before_first_open(int index) {
  constexpr int kMaxDevices = 64;
  static std::atomic<int64_t> known[kMaxDevices];  // 0: not read; else one more than the bytes, or -1 if unknown
  if (index >= kMaxDevices) return managed_used_bytes(index);
  if (known[index].load() == 0) {
    const int64_t used = managed_used_bytes(index);
    known[index].store(used < 0 ? used : used + 1);
  }
  const int64_t stored = known[index].load();
  return stored < 0 ? stored : stored - 1;
}

int attribute(cudaDeviceAttr name, int index) {
  int value = 0;
  return cudaDeviceGetAttribute(&value, name, index) == cudaSuccess ? value : 0;
}

}  // namespace

bool built_with_cuda() { return true; }

int cuda_device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    (void)cudaGetLastError();  // no driver or no GPU is an answer, not a failure to be reported later
    return 0;
  }
  return count;
}

Status read_cuda_facts(int index, CudaFacts* out) {
  const int count = cuda_device_count();
  if (count == 0) return OCELLUS_FAIL(Code::kUnsupported, "no CUDA device was found: choose the device cpu or auto");
  if (index < 0 || index >= count)
    return OCELLUS_FAIL(Code::kBadArgument, "CUDA device %d does not exist: there are %d", index, count);
  cudaDeviceProp properties;
  OCELLUS_TRY(check(cudaGetDeviceProperties(&properties, index), "reading the device's properties"));
  *out = {};
  std::snprintf(out->name, sizeof out->name, "%.63s", properties.name);
  out->index = index;
  out->major = properties.major;
  out->minor = properties.minor;
  out->multiprocessors = properties.multiProcessorCount;
  out->integrated = properties.integrated != 0;
  out->memory_bytes = static_cast<int64_t>(properties.totalGlobalMem);
  out->l2_bytes = properties.l2CacheSize;
  out->clock_khz = attribute(cudaDevAttrClockRate, index);
  out->memory_clock_khz = attribute(cudaDevAttrMemoryClockRate, index);
  OCELLUS_TRY(check(cudaDriverGetVersion(&out->driver_version), "reading the driver's version"));
  return check(cudaRuntimeGetVersion(&out->runtime_version), "reading CUDA's version");
}

Status load_all_kernels(int32_t* code_capability) {
  *code_capability = INT32_MAX;
  int device = 0;
  OCELLUS_TRY(check(cudaGetDevice(&device), "asking for the device"));
  const int most_shared = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  for (const KernelEntry* entry = KernelEntry::first; entry != nullptr; entry = entry->next) {
    cudaFuncAttributes attributes;
    OCELLUS_TRY(check(cudaFuncGetAttributes(&attributes, entry->kernel), "loading the kernels for this GPU"));
    *code_capability = std::min(*code_capability, attributes.ptxVersion);
    const int dynamic = most_shared - static_cast<int>(attributes.sharedSizeBytes);
    if (dynamic > 0)
      OCELLUS_TRY(check(cudaFuncSetAttribute(entry->kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, dynamic),
                        "raising a kernel's shared memory"));
    // One split between shared memory and cache for all kernels: changing it would keep them from overlapping.
    OCELLUS_TRY(check(cudaFuncSetAttribute(entry->kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                           cudaSharedmemCarveoutMaxShared),
                      "choosing a kernel's share of the cache"));
  }
  return {};
}

CudaGraph::~CudaGraph() {
  if (executable_ != nullptr) cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(executable_));
}

Status CudaDevice::open(int index, void* stream, std::unique_ptr<CudaDevice>* out) {
  std::unique_ptr<CudaDevice> device(new (std::nothrow) CudaDevice);
  if (device == nullptr) return OCELLUS_FAIL(Code::kIo, "the system has no memory for a device");
  OCELLUS_TRY(read_cuda_facts(index, &device->facts_));
  device->used_before_ = used_before_first_open(index);
  OCELLUS_TRY(check(cudaSetDevice(index), "choosing the device"));
  if (stream == nullptr) {
    cudaStream_t own = nullptr;
    OCELLUS_TRY(check(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking), "making a stream"));
    stream = own;
    device->owns_stream_ = true;
  }
  device->stream_ = stream;
  cudaStream_t beside = nullptr;
  OCELLUS_TRY(check(cudaStreamCreateWithFlags(&beside, cudaStreamNonBlocking), "making a stream for copies"));
  device->copy_stream_ = beside;
  for (void*& mark : device->marks_) {
    cudaEvent_t event = nullptr;
    OCELLUS_TRY(check(cudaEventCreate(&event), "making an event"));
    mark = event;
  }
  size_t free = 0, total = 0;
  OCELLUS_TRY(check(cudaMemGetInfo(&free, &total), "asking for free memory"));
  device->facts_.free_bytes = static_cast<int64_t>(free);
  OCELLUS_TRY(load_all_kernels(&device->facts_.code_capability));
  *out = std::move(device);
  return {};
}

CudaDevice::~CudaDevice() {
  (void)cudaSetDevice(facts_.index);
  if (copy_stream_ != nullptr) (void)cudaStreamSynchronize(static_cast<cudaStream_t>(copy_stream_));
  if (stream_ != nullptr) (void)cudaStreamSynchronize(static_cast<cudaStream_t>(stream_));
  if (copy_stream_ != nullptr) (void)cudaStreamDestroy(static_cast<cudaStream_t>(copy_stream_));
  for (void* mark : marks_)
    if (mark != nullptr) cudaEventDestroy(static_cast<cudaEvent_t>(mark));
  for (int i = 0; i < device_count_; ++i) cudaFree(device_memory_[i]);
  for (int i = 0; i < pinned_count_; ++i) cudaFreeHost(pinned_memory_[i]);
  if (owns_stream_) cudaStreamDestroy(static_cast<cudaStream_t>(stream_));
}

Status CudaDevice::make_current() { return check(cudaSetDevice(facts_.index), "choosing the device"); }

Status CudaDevice::allocate_device(int64_t bytes, std::byte** out) {
  if (device_count_ == static_cast<int>(std::size(device_memory_)))
    return OCELLUS_FAIL(Code::kInternal, "device memory was allocated too often");
  void* memory = nullptr;
  if (const cudaError_t error = cudaMalloc(&memory, static_cast<size_t>(bytes)); error != cudaSuccess) {
    (void)cudaGetLastError();
    size_t free = 0, total = 0;
    (void)cudaMemGetInfo(&free, &total);
    const Status status = OCELLUS_FAIL(Code::kIo, "%s refused %" PRId64 " bytes in one piece (%zu are free): %s",
                                       facts_.name, bytes, free, cudaGetErrorString(error));
    set_device_error(static_cast<int32_t>(error));
    return status;
  }
  device_memory_[device_count_++] = static_cast<std::byte*>(memory);
  allocated_bytes_ += bytes;
  *out = static_cast<std::byte*>(memory);
  return {};
}

Status CudaDevice::allocate_pinned(int64_t bytes, std::byte** out) {
  if (pinned_count_ == static_cast<int>(std::size(pinned_memory_)))
    return OCELLUS_FAIL(Code::kInternal, "pinned memory was allocated too often");
  void* memory = nullptr;
  OCELLUS_TRY(check(cudaHostAlloc(&memory, static_cast<size_t>(bytes), cudaHostAllocMapped | cudaHostAllocPortable),
                    "taking pinned host memory"));
  pinned_memory_[pinned_count_++] = static_cast<std::byte*>(memory);
  *out = static_cast<std::byte*>(memory);
  return {};
}

Status CudaDevice::check_reachable(const void* memory) const {
  cudaPointerAttributes attributes{};
  if (cudaPointerGetAttributes(&attributes, memory) != cudaSuccess) {
    (void)cudaGetLastError();
    attributes.type = cudaMemoryTypeUnregistered;
  }
  if (attributes.type != cudaMemoryTypeUnregistered && attributes.devicePointer != nullptr) return {};
  return OCELLUS_FAIL(Code::kBadArgument, "a memory extent is not device memory of %s, nor pinned memory it can reach",
                      facts_.name);
}

Status CudaDevice::find_memory(const void* memory, bool* on_device) const {
  cudaPointerAttributes attributes{};
  if (cudaPointerGetAttributes(&attributes, memory) != cudaSuccess) {
    (void)cudaGetLastError();
    attributes.type = cudaMemoryTypeUnregistered;
  }
  *on_device = attributes.type == cudaMemoryTypeDevice;
  if (!*on_device || attributes.device == facts_.index) return {};
  return OCELLUS_FAIL(Code::kBadArgument, "the memory is that of GPU %d, but the engine is on GPU %d",
                      attributes.device, facts_.index);
}

int64_t CudaDevice::outside_bytes() const {
  const int64_t used = managed_used_bytes(facts_.index);
  if (used_before_ < 0 || used < 0) {
    // Without the management library: memory used since the context was created, without the context itself.
    size_t free = 0, total = 0;
    if (cudaMemGetInfo(&free, &total) != cudaSuccess) return -1;
    return std::max<int64_t>(0, facts_.free_bytes - static_cast<int64_t>(free) - allocated_bytes_);
  }
  return std::max<int64_t>(0, used - used_before_ - allocated_bytes_);
}

Status CudaDevice::measure_copy_rate(std::byte* scratch, int64_t bytes, double* out) {
  constexpr int kRepeats = 10;
  const int64_t half = bytes / 2 / 256 * 256;
  float times[kRepeats];
  OCELLUS_TRY(copy(scratch + half, scratch, half));
  for (float& time : times) {
    OCELLUS_TRY(record_mark(kMarks - 2));
    OCELLUS_TRY(copy(scratch + half, scratch, half));
    OCELLUS_TRY(record_mark(kMarks - 1));
    OCELLUS_TRY(wait_for_mark(kMarks - 1));
    time = static_cast<float>(elapsed_ms(kMarks - 2, kMarks - 1));
  }
  std::sort(times, times + kRepeats);
  *out = 2.0 * static_cast<double>(half) / (static_cast<double>(times[kRepeats / 2]) * 1e-3);
  return {};
}

Status CudaDevice::copy(void* to, const void* from, int64_t bytes) {
  return check(
      cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault, static_cast<cudaStream_t>(stream_)),
      "copying");
}

Status CudaDevice::copy_rows(void* to, const void* from, int64_t stride_bytes, int64_t row_bytes, int64_t rows) {
  return check(cudaMemcpy2DAsync(to, static_cast<size_t>(row_bytes), from, static_cast<size_t>(stride_bytes),
                                 static_cast<size_t>(row_bytes), static_cast<size_t>(rows), cudaMemcpyDefault,
                                 static_cast<cudaStream_t>(stream_)),
               "copying rows");
}

Status CudaDevice::follow_default_stream() {
  const auto event = static_cast<cudaEvent_t>(marks_[kMarks - 1]);  // besides this only measure_copy_rate() uses it
  OCELLUS_TRY(check(cudaEventRecord(event, cudaStreamLegacy), "recording an event"));
  return check(cudaStreamWaitEvent(static_cast<cudaStream_t>(stream_), event, 0),
               "ordering the work after the caller's");
}

Status CudaDevice::fill(void* to, uint8_t value, int64_t bytes) {
  return check(cudaMemsetAsync(to, value, static_cast<size_t>(bytes), static_cast<cudaStream_t>(stream_)), "filling");
}

Status CudaDevice::finish() {
  return check(cudaStreamSynchronize(static_cast<cudaStream_t>(stream_)), "waiting for the device");
}

Status CudaDevice::record_mark(int mark) {
  return check(cudaEventRecord(static_cast<cudaEvent_t>(marks_[mark]), static_cast<cudaStream_t>(stream_)),
               "recording an event");
}

Status CudaDevice::wait_for_mark(int mark) {
  return check(cudaEventSynchronize(static_cast<cudaEvent_t>(marks_[mark])), "waiting for the device");
}

double CudaDevice::elapsed_ms(int first_mark, int last_mark) {
  float milliseconds = 0;
  const cudaError_t error = cudaEventElapsedTime(&milliseconds, static_cast<cudaEvent_t>(marks_[first_mark]),
                                                 static_cast<cudaEvent_t>(marks_[last_mark]));
  return error == cudaSuccess ? static_cast<double>(milliseconds) : 0.0;
}

Status CudaDevice::begin_capture() {
  OCELLUS_TRY(check(cudaStreamBeginCapture(static_cast<cudaStream_t>(stream_), cudaStreamCaptureModeThreadLocal),
                    "recording a graph"));
  capturing_ = true;
  return {};
}

Status CudaDevice::end_capture(CudaGraph* out) {
  capturing_ = false;
  cudaGraph_t graph = nullptr;
  OCELLUS_TRY(check(cudaStreamEndCapture(static_cast<cudaStream_t>(stream_), &graph), "recording a graph"));
  cudaGraphExec_t executable = nullptr;
  Status status = check(cudaGraphInstantiate(&executable, graph, 0), "preparing a graph");
  cudaGraphDestroy(graph);
  OCELLUS_TRY(status);
  out->executable_ = executable;
  // Uploads the graph's data now, not at its first launch.
  return check(cudaGraphUpload(executable, static_cast<cudaStream_t>(stream_)), "preparing a graph");
}

Status CudaDevice::launch(const CudaGraph& graph) {
  return check(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph.executable_), static_cast<cudaStream_t>(stream_)),
               "starting a graph");
}

Status CudaDevice::copy_beside(void* to, const void* from, int64_t bytes) {
  return check(
      cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault, static_cast<cudaStream_t>(copy_stream_)),
      "copying beside the work");
}

Status CudaDevice::record_mark_beside(int mark) {
  return check(cudaEventRecord(static_cast<cudaEvent_t>(marks_[mark]), static_cast<cudaStream_t>(copy_stream_)),
               "recording an event");
}

Status CudaDevice::order_beside_after_work(int mark) {
  OCELLUS_TRY(record_mark(mark));
  return check(cudaStreamWaitEvent(static_cast<cudaStream_t>(copy_stream_), static_cast<cudaEvent_t>(marks_[mark]), 0),
               "ordering copies after the work");
}

Status CudaDevice::order_work_after_mark(int mark) {
  return check(cudaStreamWaitEvent(static_cast<cudaStream_t>(stream_), static_cast<cudaEvent_t>(marks_[mark]), 0),
               "ordering the work after copies");
}

bool CudaDevice::mark_reached(int mark) const {
  if (cudaEventQuery(static_cast<cudaEvent_t>(marks_[mark])) == cudaSuccess) return true;
  (void)cudaGetLastError();  // "not ready" is an answer, not a failure to be reported later
  return false;
}

}  // namespace ocellus

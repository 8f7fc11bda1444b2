// Kernel launches and their overlap.
//
// A kernel launched with `overlap` may start while the one before it is still running. It must call wait_for_inputs()
// before it reads results of earlier kernels and before it writes anything; constant data (weights) it may fetch
// before.
// let_next_start() allows the next kernel to start: call it early. Code for older devices has none of the three.
#pragma once

#include <cuda_runtime.h>

#include <type_traits>
#include <utility>

#include "platform/cuda_kernels.h"
#include "platform/queue.h"

namespace ocellus::cuda {

struct LaunchShape {
  dim3 grid;
  int threads = 128;
  int shared_bytes = 0;  // dynamic
  bool overlap = true;
};

inline cudaStream_t stream_of(Queue& queue) { return static_cast<cudaStream_t>(queue.cuda()->stream()); }

/// Compute capability that the kernels were compiled for, as __CUDA_ARCH__ in them: 87, 90, 120. Not the device's own,
/// which runs the PTX of older ones as well.
inline int capability_of(const Queue& queue) { return queue.cuda()->facts().code_capability; }

/// Records a CUDA error as the queue's failure.
inline void record(Queue& queue, const char* op, cudaError_t error) {
  if (error == cudaSuccess) return;
  const Status status = OCELLUS_FAIL(Code::kDevice, "%s: %s", op, cudaGetErrorString(error));
  set_device_error(static_cast<int32_t>(error));
  queue.fail(status);
}

template <auto kKernel>
inline KernelEntry g_entry{reinterpret_cast<const void*>(kKernel)};

template <class... Params>
void launch_with(void (*kernel)(Params...), Queue& queue, const char* op, const LaunchShape& shape,
                 std::type_identity_t<Params>... params) {
  if (!queue.ok() || shape.grid.x == 0 || shape.grid.y == 0 || shape.grid.z == 0) return;
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = dim3(static_cast<unsigned>(shape.threads));
  config.dynamicSmemBytes = static_cast<size_t>(shape.shared_bytes);
  config.stream = stream_of(queue);
  config.attrs = &overlap;
  // A kernel that does not wait for its inputs must not start before they are complete.
  config.numAttrs = shape.overlap && capability_of(queue) >= 90 ? 1 : 0;
  record(queue, op, cudaLaunchKernelEx(&config, kernel, params...));
}

/// launch<my_kernel<64>>(queue, "my_op", {.grid = blocks, .threads = 256}, arguments...). The only way to launch: it
/// adds the kernel to the list of those to load.
template <auto kKernel, class... Values>
void launch(Queue& queue, const char* op, const LaunchShape& shape, Values&&... values) {
  static_cast<void>(&g_entry<kKernel>);
  launch_with(kKernel, queue, op, shape, std::forward<Values>(values)...);
}

__device__ inline void wait_for_inputs() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}

__device__ inline void let_next_start() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

}  // namespace ocellus::cuda

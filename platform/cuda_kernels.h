// The list of all kernels of the library, so that opening a device can load them: CUDA otherwise loads a kernel, and
// allocates for it, at its first launch. Needs no CUDA header.
#pragma once

#include "platform/status.h"

namespace ocellus {

struct KernelEntry {
  explicit KernelEntry(const void* kernel_) : kernel(kernel_), next(first) { first = this; }
  const void* kernel;
  KernelEntry* next;
  static inline KernelEntry* first = nullptr;
};

/// Loads every kernel in the list on the current device and allows it as much shared memory as the device has. Returns
/// the least compute capability that any of them was compiled for: see CudaFacts.
Status load_all_kernels(int32_t* code_capability);

}  // namespace ocellus

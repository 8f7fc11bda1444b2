// The list of every kernel that the library may launch, so that opening a device can load them all: CUDA otherwise
// loads a kernel, and allocates for it, when it is launched for the first time. Needs no CUDA header.
#pragma once

#include "platform/status.h"

namespace ocellus {

struct KernelEntry {
  explicit KernelEntry(const void* kernel_) : kernel(kernel_), next(first) { first = this; }
  const void* kernel;
  KernelEntry* next;
  static inline KernelEntry* first = nullptr;
};

/// Loads every kernel in the list on the current device and lets it use as much shared memory as the device has.
Status load_all_kernels();

}  // namespace ocellus

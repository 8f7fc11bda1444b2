#include "runtime/engine/gpu_probe.h"

#include <algorithm>
#include <cstring>

#include "kernels/linear/matmul_library.h"
#include "platform/device.h"

namespace ocellus {
namespace {

/// Half of it is read and half written: far more than any GPU's cache.
constexpr int64_t kCopyBytes = int64_t{512} << 20;

void describe(const CudaFacts& facts, ocellus_gpu_facts* out) {
  *out = {};
  std::memcpy(out->name, facts.name, sizeof out->name);
  out->index = facts.index;
  out->compute_major = facts.major;
  out->compute_minor = facts.minor;
  out->code_capability = facts.code_capability;
  out->multiprocessors = facts.multiprocessors;
  out->integrated = facts.integrated ? 1 : 0;
  out->driver_version = facts.driver_version;
  out->runtime_version = facts.runtime_version;
  out->clock_khz = facts.clock_khz;
  out->memory_clock_khz = facts.memory_clock_khz;
  out->memory_bytes = facts.memory_bytes;
  out->free_bytes = facts.free_bytes;
  out->l2_bytes = facts.l2_bytes;
}

}  // namespace

Status probe_gpu(int index, ocellus_gpu_facts* out) {
  std::unique_ptr<CudaDevice> device;
  std::unique_ptr<MatmulLibrary> library;
  OCELLUS_TRY(CudaDevice::open(index, nullptr, &device));
  OCELLUS_TRY(MatmulLibrary::create(*device, &library));
  describe(device->facts(), out);
  out->outside_bytes = device->outside_bytes();
  const int64_t bytes = std::min(kCopyBytes, device->facts().free_bytes / 2);
  std::byte* memory = nullptr;
  OCELLUS_TRY(device->allocate_device(bytes, &memory));
  return device->measure_copy_rate(memory, bytes, &out->copy_bytes_per_s);
}

}  // namespace ocellus

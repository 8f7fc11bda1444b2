#include "tests/support/device.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <memory>
#include <vector>

#include "kernels/linear/matmul_library.h"
#if OCELLUS_HAS_CUDA
#include <cuda_runtime.h>
#endif

namespace ocellus::test {
namespace {

bool has_gpu() {
  static const bool found = cuda_device_count() > 0;
  return found;
}

#if OCELLUS_HAS_CUDA
/// Released pinned blocks, by the power of two of their size: pinning and freeing is slow in the driver, and tests need
/// thousands. They are never freed, as the driver may be unloaded before static objects are destroyed.
std::vector<void*>& spare_blocks(size_t bytes) {
  static auto* const spares = new std::array<std::vector<void*>, 64>;
  return (*spares)[static_cast<size_t>(std::countr_zero(bytes))];
}
size_t block_size(size_t bytes) { return std::bit_ceil(std::max<size_t>(bytes, 4096)); }

void* allocate_pinned(size_t bytes) {
  std::vector<void*>& spares = spare_blocks(block_size(bytes));
  void* memory = nullptr;
  if (!spares.empty()) {
    memory = spares.back();
    spares.pop_back();
  } else if (cudaHostAlloc(&memory, block_size(bytes), cudaHostAllocPortable | cudaHostAllocMapped) != cudaSuccess) {
    std::abort();
  }
  return memory;
}
#endif

}  // namespace

void* allocate_visible(size_t bytes) {
#if OCELLUS_HAS_CUDA
  if (has_gpu()) return allocate_pinned(bytes);
#endif
  // Exactly the requested bytes, so that sanitizers see reads beyond the end.
  void* memory = nullptr;
  if (posix_memalign(&memory, 64, bytes) != 0) std::abort();
  return memory;
}

void release_visible(void* memory, [[maybe_unused]] size_t bytes) {
#if OCELLUS_HAS_CUDA
  if (has_gpu()) return spare_blocks(block_size(bytes)).push_back(memory);
#endif
  std::free(memory);
}

Queue* cuda_queue() {
  if (!has_gpu()) return nullptr;
  struct Cuda {
    ThreadPool pool;
    Queue queue{pool};
    std::unique_ptr<CudaDevice> device;
    std::unique_ptr<MatmulLibrary> library;
  };
  static Cuda* const cuda = [] {
    auto* opened = new Cuda;  // lives as long as the program: CUDA may be unloaded before static objects are destroyed
    REQUIRE_MESSAGE(CudaDevice::open(0, nullptr, &opened->device).ok(), last_failure().sentence);
    REQUIRE_MESSAGE(MatmulLibrary::create(*opened->device, &opened->library).ok(), last_failure().sentence);
    opened->queue.use_cuda(opened->device.get(), opened->library.get());
    return opened;
  }();
  return &cuda->queue;
}

void for_each_backend(const std::function<void(Queue&)>& body) {
  if (!is_small_run() || cuda_queue() == nullptr) {
    TestQueue queue(2);
    INFO("on the CPU");
    body(*queue);
  }
  if (Queue* queue = cuda_queue()) {
    INFO("on CUDA");
    body(*queue);
    REQUIRE_MESSAGE(queue->finish().ok(), last_failure().sentence);
  }
}

void for_each_backend_and_target(const std::function<void(Queue&)>& body) {
  for_each_backend([&](Queue& queue) {
    if (queue.on_cuda())
      body(queue);
    else
      for_each_target([&] { body(queue); });
  });
}

}  // namespace ocellus::test

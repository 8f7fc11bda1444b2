// Set-up memory is the caller's: all of it comes from the allocator, returns there, and may be refused.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "runtime/ocellus.h"
#include "tests/support/call_counter.h"
#include "tests/support/thinking_model.h"

namespace {

using namespace ocellus::test;

struct Heap {
  int64_t taken = 0, freed = 0, most = INT64_MAX;
};

ocellus_allocator allocator_of(Heap* heap) {
  ocellus_allocator allocator;
  ocellus_allocator_init(&allocator);
  allocator.allocate = [](void* user, int64_t bytes) -> void* {
    Heap& from = *static_cast<Heap*>(user);
    if (from.taken == from.most) return nullptr;
    ++from.taken;
    return std::malloc(static_cast<size_t>(bytes));
  };
  allocator.deallocate = [](void* user, void* memory) {
    ++static_cast<Heap*>(user)->freed;
    std::free(memory);
  };
  allocator.user = heap;
  return allocator;
}

int stop_at_half(void*, int64_t done_bytes, int64_t total_bytes) { return 2 * done_bytes >= total_bytes ? 1 : 0; }

/// Opens the bundled pair and creates an engine, then closes both. The hooks are copied.
ocellus_status set_up(const ModelPair& pair, Heap* heap, ocellus_progress_function progress = nullptr) {
  ocellus_model* model = nullptr;
  ocellus_engine* engine = nullptr;
  ocellus_engine_config config;
  ocellus_engine_config_init(&config);
  config.limits.device = OCELLUS_DEVICE_CPU;
  config.limits.thread_count = 2;
  config.progress = progress;
  ocellus_status status = OCELLUS_OK;
  {
    const ocellus_allocator allocator = allocator_of(heap);
    config.allocator = &allocator;
    status = ocellus_model_open_with_allocator(pair.model.c_str(), pair.mmproj.c_str(), &allocator, &model);
    if (status == OCELLUS_OK) status = ocellus_engine_create(model, &config, &engine);
  }
  ocellus_engine_destroy(engine);
  ocellus_model_close(model);
  return status;
}

TEST_CASE("set-up takes nothing from operator new where there is an allocator, and gives everything back") {
  const ModelPair pair = bundled_pair();
  Heap heap;
  ocellus_status status = OCELLUS_OK;
  {
    const CallCounter counter;
    status = set_up(pair, &heap);
  }
  CHECK(status == OCELLUS_OK);
  CHECK(calls_of(kNew) == 0);
  CHECK(heap.taken > 20);
  CHECK(heap.freed == heap.taken);
}

TEST_CASE("an engine whose loading the caller ends at half gives back all set-up memory") {
  Heap heap;
  CHECK(set_up(bundled_pair(), &heap, stop_at_half) == OCELLUS_CANCELLED);
  CHECK(heap.taken > 20);
  CHECK(heap.freed == heap.taken);
}

/// Bytes of the process's address space; in it are an engine's memory and its threads' stacks.
int64_t address_bytes() {
  long long pages = 0;
  std::FILE* file = std::fopen("/proc/self/statm", "re");
  REQUIRE(file != nullptr);
  CHECK(std::fscanf(file, "%lld", &pages) == 1);
  std::fclose(file);
  return pages * ::sysconf(_SC_PAGESIZE);
}

TEST_CASE("engines whose loading the caller ends at half leave no memory taken, on the host or on a GPU") {
  const ModelPair pair = bundled_pair();
  ocellus_model* model = nullptr;
  REQUIRE(ocellus_model_open(pair.model.c_str(), pair.mmproj.c_str(), &model) == OCELLUS_OK);
  ocellus_engine_config config;
  ocellus_engine_config_init(&config);
  config.limits.thread_count = 2;
  config.progress = stop_at_half;
  const auto create = [&] {
    ocellus_engine* engine = nullptr;
    CHECK(ocellus_engine_create(model, &config, &engine) == OCELLUS_CANCELLED);
    CHECK(engine == nullptr);
  };
  create();  // heaps of threads and a GPU's driver stay
  create();
  const int64_t host = address_bytes(), device = free_device_bytes();
  for (int i = 0; i < 4; ++i) create();
  constexpr int64_t kLess = int64_t{16} << 20;  // than the memory of one engine
  CHECK(address_bytes() < host + kLess);
  CHECK(free_device_bytes() > device - kLess);
  ocellus_model_close(model);
}

TEST_CASE("every refusal of set-up memory is an error that loses nothing") {
  ocellus_status status = OCELLUS_IO;
  for (int64_t most = 0; status != OCELLUS_OK; ++most) {
    Heap heap{.most = most};
    status = set_up(bundled_pair(), &heap);
    CAPTURE(most);
    CHECK(heap.freed == heap.taken);
    REQUIRE((status == OCELLUS_IO || status == OCELLUS_OK));
    REQUIRE(most < 1000);
  }
}

TEST_CASE("an allocator without its functions is refused") {
  ocellus_allocator allocator;
  ocellus_allocator_init(&allocator);
  ocellus_model* model = nullptr;
  CHECK(ocellus_model_open_with_allocator(bundled_pair().model.c_str(), nullptr, &allocator, &model) ==
        OCELLUS_BAD_ARGUMENT);
}

}  // namespace

#include "platform/set_up_memory.h"

#include <algorithm>
#include <limits>

namespace ocellus {
namespace {

thread_local Allocator t_allocator;

/// Lies before each piece of memory.
struct alignas(16) Origin {
  Allocator allocator;
  void* block;
};

}  // namespace

AllocatorScope::AllocatorScope(const Allocator& allocator) : before_(t_allocator) { t_allocator = allocator; }
AllocatorScope::~AllocatorScope() { t_allocator = before_; }

void* take_set_up(int64_t count, size_t bytes, size_t alignment) noexcept {
  alignment = std::max(alignment, alignof(Origin));
  const size_t around = sizeof(Origin) + alignment;
  constexpr auto kMost = static_cast<size_t>(std::numeric_limits<int64_t>::max());
  if (static_cast<size_t>(count) > (kMost - around) / std::max<size_t>(bytes, 1)) return nullptr;
  const size_t total = static_cast<size_t>(count) * bytes + around;
  void* const block = t_allocator.allocate == nullptr
                          ? ::operator new(total, std::nothrow)
                          : t_allocator.allocate(t_allocator.user, static_cast<int64_t>(total));
  if (block == nullptr) return nullptr;
  const uintptr_t place = (reinterpret_cast<uintptr_t>(block) + around) / alignment * alignment;
  new (reinterpret_cast<Origin*>(place) - 1) Origin{t_allocator, block};
  return reinterpret_cast<void*>(place);
}

void free_set_up(void* memory) noexcept {
  if (memory == nullptr) return;
  const Origin origin = *(static_cast<Origin*>(memory) - 1);
  if (origin.allocator.deallocate == nullptr)
    ::operator delete(origin.block);
  else
    origin.allocator.deallocate(origin.allocator.user, origin.block);
}

}  // namespace ocellus

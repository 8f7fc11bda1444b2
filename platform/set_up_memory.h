// Memory of set-up: objects and tables of models and engines, outside the arena. It comes from the allocator of the
// scope in which it is taken, and returns to that one wherever it is freed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

namespace ocellus {

struct Allocator {
  void* (*allocate)(void* user, int64_t bytes) = nullptr;  // aligned to 16 bytes; null functions: operator new
  void (*deallocate)(void* user, void* memory) = nullptr;
  void* user = nullptr;
};

/// Until its end the calling thread takes set-up memory from this allocator.
class AllocatorScope {
 public:
  explicit AllocatorScope(const Allocator& allocator);
  ~AllocatorScope();
  AllocatorScope(const AllocatorScope&) = delete;
  AllocatorScope& operator=(const AllocatorScope&) = delete;

 private:
  Allocator before_;
};

/// Returns null if there is no memory for `count` pieces of `bytes` each.
void* take_set_up(int64_t count, size_t bytes, size_t alignment) noexcept;
/// Null is allowed.
void free_set_up(void* memory) noexcept;

/// Base of classes whose objects are set-up memory.
struct SetUpObject {
  using NoThrow = std::nothrow_t;
  static void* operator new(size_t bytes, const NoThrow&) noexcept { return take_set_up(1, bytes, 1); }
  static void* operator new[](size_t bytes, const NoThrow&) noexcept { return take_set_up(1, bytes, 1); }
  static void* operator new(size_t bytes, std::align_val_t alignment, const NoThrow&) noexcept {
    return take_set_up(1, bytes, static_cast<size_t>(alignment));
  }
  static void operator delete(void* memory) noexcept { free_set_up(memory); }
  static void operator delete[](void* memory) noexcept { free_set_up(memory); }
  static void operator delete(void* memory, std::align_val_t) noexcept { free_set_up(memory); }
  // The counterparts of new, which some compilers require.
  static void operator delete(void* memory, const NoThrow&) noexcept { free_set_up(memory); }
  static void operator delete[](void* memory, const NoThrow&) noexcept { free_set_up(memory); }
  static void operator delete(void* memory, std::align_val_t, const NoThrow&) noexcept { free_set_up(memory); }
};

}  // namespace ocellus

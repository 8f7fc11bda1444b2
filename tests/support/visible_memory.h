// Host memory that a GPU, where there is one, reads and writes too.
#pragma once

#include <cstddef>
#include <vector>

namespace ocellus::test {

/// Aligned to at least 64 bytes. Never null: a test without memory ends. From one thread at a time, and given back only
/// when the device is done with it.
void* allocate_visible(size_t bytes);
void release_visible(void* memory, size_t bytes);

template <class T>
struct VisibleAllocator {
  using value_type = T;
  VisibleAllocator() = default;
  template <class U>
  VisibleAllocator(const VisibleAllocator<U>&) {}
  T* allocate(size_t count) { return static_cast<T*>(allocate_visible(count * sizeof(T))); }
  void deallocate(T* memory, size_t count) { release_visible(memory, count * sizeof(T)); }
  template <class U>
  bool operator==(const VisibleAllocator<U>&) const {
    return true;
  }
};

template <class T>
using Vector = std::vector<T, VisibleAllocator<T>>;

/// A copy that the device can read.
template <class T>
Vector<T> visible(const std::vector<T>& values) {
  return Vector<T>(values.begin(), values.end());
}

}  // namespace ocellus::test

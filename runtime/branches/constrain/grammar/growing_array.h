// GrowingArray: an array in memory that was given once; it never grows past that.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "platform/round_up.h"
#include "platform/views.h"

namespace ocellus {

/// Values are plain and have no destructors.
template <class T>
class GrowingArray {
 public:
  GrowingArray() = default;
  GrowingArray(void* memory, int64_t bytes) : data_(static_cast<T*>(memory)), capacity_(bytes / int64_t{sizeof(T)}) {}

  /// Returns false if there is no room.
  bool push(const T& value) {
    if (count_ == capacity_) return false;
    data_[count_++] = value;
    return true;
  }
  /// Makes it `count` elements long, new ones equal to `value`; false if there is no room.
  bool resize(int64_t count, const T& value = {}) {
    if (count > capacity_) return false;
    for (; count_ < count; ++count_) data_[count_] = value;
    count_ = count;
    return true;
  }
  void clear() { count_ = 0; }
  T pop() { return data_[--count_]; }

  int64_t count() const { return count_; }
  int64_t capacity() const { return capacity_; }
  bool empty() const { return count_ == 0; }
  T* data() { return data_; }
  const T* data() const { return data_; }
  T& operator[](int64_t i) { return data_[i]; }
  const T& operator[](int64_t i) const { return data_[i]; }
  T* begin() { return data_; }
  T* end() { return data_ + count_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + count_; }

 private:
  T* data_ = nullptr;
  int64_t capacity_ = 0;
  int64_t count_ = 0;
};

/// Memory that is handed out in pieces, from its beginning.
class Workspace {
 public:
  explicit Workspace(HostView<std::byte> memory) : memory_(memory) {}

  int64_t left() const { return memory_.cols - used_; }
  /// An array of at most `bytes`; empty if they are not left. Aligned to 16 bytes if the memory is.
  template <class T>
  GrowingArray<T> take(int64_t bytes) {
    const int64_t begin = used_;
    if (bytes < 0 || bytes > left()) return {};
    used_ = round_up(begin + bytes, 16);
    if (used_ > memory_.cols) used_ = memory_.cols;
    return GrowingArray<T>(memory_.data + begin, bytes);
  }
  /// Takes back all from a place in the memory on; arrays before it get no more elements.
  void rewind(const void* to) {
    used_ = std::min(round_up(static_cast<const std::byte*>(to) - memory_.data, int64_t{16}), memory_.cols);
  }

 private:
  HostView<std::byte> memory_;
  int64_t used_ = 0;
};

}  // namespace ocellus

// Buffer: an owned array for set-up code. Growth reports failure as a Status instead of throwing. Not used in the
// steady state: all memory of a running engine is in the arena.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include "platform/set_up_memory.h"
#include "platform/status.h"

namespace ocellus {

template <class T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>, "Buffer moves its elements with plain copies");

 public:
  Buffer() = default;
  ~Buffer() { free_set_up(data_); }
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        capacity_(std::exchange(other.capacity_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  Status reserve(int64_t capacity) {
    if (capacity <= capacity_) return {};
    T* const grown = static_cast<T*>(take_set_up(capacity, sizeof(T), alignof(T)));
    if (grown == nullptr)
      return OCELLUS_FAIL(Code::kIo, "the system has no memory for %lld bytes",
                          static_cast<long long>(capacity * static_cast<int64_t>(sizeof(T))));
    std::uninitialized_copy_n(data_, size_, grown);
    std::uninitialized_value_construct_n(grown + size_, capacity - size_);
    free_set_up(data_);
    data_ = grown;
    capacity_ = capacity;
    return {};
  }
  Status resize(int64_t size) {
    OCELLUS_TRY(reserve(size));
    for (int64_t i = size_; i < size; ++i) data_[i] = T{};
    size_ = size;
    return {};
  }
  Status push(const T& value) {
    if (size_ == capacity_) OCELLUS_TRY(reserve(capacity_ == 0 ? 16 : capacity_ * 2));
    data_[size_++] = value;
    return {};
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  int64_t size() const { return size_; }
  int64_t capacity() const { return capacity_; }
  bool empty() const { return size_ == 0; }
  T& operator[](int64_t i) { return data_[i]; }
  const T& operator[](int64_t i) const { return data_[i]; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }

 private:
  T* data_ = nullptr;
  int64_t size_ = 0;
  int64_t capacity_ = 0;
};

}  // namespace ocellus

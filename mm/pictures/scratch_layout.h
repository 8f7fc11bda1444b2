// ScratchLayout: consecutive arrays of a piece of scratch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "platform/round_up.h"

namespace ocellus {

/// With null memory it only counts.
class ScratchLayout {
 public:
  static constexpr int64_t kAlignment = 16;
  explicit ScratchLayout(std::byte* memory) : memory_(memory) {}
  /// Aligns memory that may start anywhere; a count then includes the bytes to the first boundary.
  static std::byte* align(std::byte* memory) {
    return memory + (kAlignment - reinterpret_cast<uintptr_t>(memory) % kAlignment) % kAlignment;
  }

  template <class T>
  void take(int64_t count, T** out) {
    *out = memory_ == nullptr ? nullptr : reinterpret_cast<T*>(memory_ + bytes_);
    bytes_ += round_up(count * static_cast<int64_t>(sizeof(T)), kAlignment);
  }
  int64_t bytes() const { return bytes_; }

 private:
  std::byte* memory_;
  int64_t bytes_ = 0;
};

}  // namespace ocellus

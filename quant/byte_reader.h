// Reads values one after the other from bytes that may end anywhere. Every read says whether the bytes were there.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>

namespace ocellus {

static_assert(std::endian::native == std::endian::little, "files are little-endian and read without swapping");

class ByteReader {
 public:
  ByteReader(const uint8_t* data, uint64_t size) : at_(data), left_(size) {}

  const uint8_t* at() const { return at_; }
  uint64_t left() const { return left_; }

  bool skip(uint64_t count) {
    if (count > left_) return false;
    at_ += count;
    left_ -= count;
    return true;
  }

  /// Values lie unaligned in the file.
  template <class T>
  bool read(T* out) {
    static_assert(std::is_arithmetic_v<T>);
    if (left_ < sizeof(T)) return false;
    std::memcpy(out, at_, sizeof(T));
    return skip(sizeof(T));
  }

  /// A 64-bit length, then as many bytes. The view points into the file.
  bool read_string(std::string_view* out) {
    uint64_t length = 0;
    if (!read(&length) || length > left_) return false;
    *out = {reinterpret_cast<const char*>(at_), static_cast<size_t>(length)};
    return skip(length);
  }

 private:
  const uint8_t* at_;
  uint64_t left_;
};

}  // namespace ocellus

// Reads consecutive values from bytes that may end anywhere. Every read returns whether the bytes were there.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>

namespace ocellus {

static_assert(std::endian::native == std::endian::little, "files are little-endian and read without swapping");

/// Fetches bytes into memory as a reader gets to them.
class ByteSource {
 public:
  /// Makes the first `count` bytes readable at the reader's address, which never moves. Returns how many are readable
  /// then: fewer than `count` only if the rest cannot be read.
  virtual uint64_t provide(uint64_t count) = 0;

 protected:
  ~ByteSource() = default;
};

class ByteReader {
 public:
  /// Without a source all bytes are in memory.
  ByteReader(const uint8_t* data, uint64_t size, ByteSource* source = nullptr)
      : at_(data), left_(size), ready_(source == nullptr ? size : 0), source_(source) {}

  const uint8_t* at() const { return at_; }
  uint64_t left() const { return left_; }

  /// True if the next `count` bytes can be read.
  bool has(uint64_t count) { return count <= left_ && (count <= ready_ || bring(count)); }

  bool skip(uint64_t count) {
    if (!has(count)) return false;
    at_ += count;
    left_ -= count;
    ready_ -= count;
    done_ += count;
    return true;
  }

  /// Reads a value; values are unaligned in the file.
  template <class T>
  bool read(T* out) {
    static_assert(std::is_arithmetic_v<T>);
    if (!has(sizeof(T))) return false;
    std::memcpy(out, at_, sizeof(T));
    return skip(sizeof(T));
  }

  /// Reads a 64-bit length and that many bytes. The view points to the bytes in memory.
  bool read_string(std::string_view* out) {
    uint64_t length = 0;
    if (!read(&length) || !has(length)) return false;
    *out = {reinterpret_cast<const char*>(at_), static_cast<size_t>(length)};
    return skip(length);
  }

 private:
  bool bring(uint64_t count) {
    if (source_ == nullptr) return false;
    const uint64_t ready = source_->provide(done_ + count);
    if (ready < done_ + count) return false;
    ready_ = ready - done_;
    return true;
  }

  const uint8_t* at_;
  uint64_t left_;
  uint64_t ready_;  // bytes of left_ that are in memory
  uint64_t done_ = 0;
  ByteSource* source_;
};

}  // namespace ocellus

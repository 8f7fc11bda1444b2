// ByteSet: some of the 256 bytes.
#pragma once

#include <bit>
#include <cstdint>

namespace ocellus {

class ByteSet {
 public:
  constexpr bool has(int byte) const { return (words_[byte / 64] >> (byte % 64) & 1) != 0; }
  constexpr ByteSet& add(int byte) {
    words_[byte / 64] |= uint64_t{1} << (byte % 64);
    return *this;
  }
  constexpr ByteSet& add_range(int first, int last) {
    for (int byte = first; byte <= last; ++byte) add(byte);
    return *this;
  }
  constexpr ByteSet& add_all(const ByteSet& other) {
    for (int i = 0; i < 4; ++i) words_[i] |= other.words_[i];
    return *this;
  }
  constexpr ByteSet& keep(const ByteSet& other) {
    for (int i = 0; i < 4; ++i) words_[i] &= other.words_[i];
    return *this;
  }
  constexpr int count() const {
    int sum = 0;
    for (const uint64_t word : words_) sum += std::popcount(word);
    return sum;
  }
  /// Returns the byte if it is the only one; else -1.
  constexpr int only() const {
    if (count() != 1) return -1;
    int byte = 0;
    for (const uint64_t word : words_) {
      if (word != 0) return byte + std::countr_zero(word);
      byte += 64;
    }
    return -1;
  }
  constexpr bool empty() const { return count() == 0; }
  constexpr bool operator==(const ByteSet&) const = default;

 private:
  uint64_t words_[4] = {};
};

}  // namespace ocellus

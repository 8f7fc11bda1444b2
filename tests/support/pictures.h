// Pictures for tests: files of tests/data/images, a synthetic one, guarded scratch.
#pragma once

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "mm/pictures/rgb_image.h"
#include "platform/arena.h"

namespace ocellus::testing {

inline std::vector<uint8_t> read_picture_file(const std::string& name) {
  std::ifstream file(std::string(OCELLUS_SOURCE_DIR) + "/tests/data/images/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// The picture that make_fixtures.py draws under the same name, from a column on.
inline std::vector<uint8_t> synthetic_pixels(int width, int height, int shift = 0) {
  std::vector<uint8_t> pixels;
  for (int y = 0; y < height; ++y) {
    for (int x = shift; x < shift + width; ++x) {
      for (int c = 0; c < 3; ++c) {
        pixels.push_back(
            static_cast<uint8_t>(x * 7 + y * 13 + c * 50 + ((x * x * 31 + y * y * 17 + x * y * 3 + c * 97) >> 3)));
      }
    }
  }
  return pixels;
}

inline RgbImage view_of(const std::vector<uint8_t>& pixels, int width, int height) {
  return {pixels.data(), width, height, int64_t{3} * width};
}

inline constexpr uint64_t kFnvStart = 0xCBF29CE484222325;
inline uint64_t fnv(const uint8_t* bytes, int64_t count, uint64_t value = kFnvStart) {
  for (int64_t i = 0; i < count; ++i) value = (value ^ bytes[i]) * 0x100000001B3;
  return value;
}

inline uint64_t fnv(const RgbImage& image) {
  uint64_t value = kFnvStart;
  for (int32_t y = 0; y < image.height; ++y) value = fnv(image.row(y), int64_t{3} * image.width, value);
  return value;
}

/// Scratch of an exact size, filled with rubbish, between guard bands.
class GuardedScratch {
 public:
  explicit GuardedScratch(int64_t bytes)
      : bytes_(bytes), memory_(new std::byte[static_cast<size_t>(bytes + 2 * kGuard)]) {
    std::memset(memory_.get(), 0xA5, static_cast<size_t>(bytes + 2 * kGuard));
  }
  Extent extent() const { return {memory_.get() + kGuard, bytes_}; }
  bool intact() const {
    for (int64_t i = 0; i < kGuard; ++i) {
      if (memory_[static_cast<size_t>(i)] != std::byte{0xA5}) return false;
      if (memory_[static_cast<size_t>(kGuard + bytes_ + i)] != std::byte{0xA5}) return false;
    }
    return true;
  }

 private:
  static constexpr int64_t kGuard = 256;
  int64_t bytes_;
  std::unique_ptr<std::byte[]> memory_;
};

}  // namespace ocellus::testing

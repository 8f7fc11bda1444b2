#include "mm/pictures/orientation.h"

#include <cstring>

namespace ocellus {
namespace {

constexpr int64_t kEntryBytes = 12;
constexpr int kTag = 274, kShort = 3;

/// Reads numbers of either byte order.
struct TiffBytes {
  const uint8_t* bytes;
  bool little;
  int64_t number(int64_t at, int count) const {
    int64_t value = 0;
    for (int i = 0; i < count; ++i) value = value << 8 | bytes[at + (little ? count - 1 - i : i)];
    return value;
  }
};

Orientation orientation_of(int64_t value) {
  constexpr Orientation kOrientations[8] = {{false, false, false}, {true, false, false}, {true, true, false},
                                            {false, true, false},  {false, false, true}, {false, true, true},
                                            {true, true, true},    {true, false, true}};
  return value >= 1 && value <= 8 ? kOrientations[value - 1] : Orientation();
}

}  // namespace

Orientation read_exif_orientation(const uint8_t* bytes, int64_t size_bytes) {
  constexpr int64_t kPrefixBytes = 6, kHeaderBytes = 8;
  if (size_bytes >= kPrefixBytes && std::memcmp(bytes, "Exif\0", kPrefixBytes) == 0) {
    bytes += kPrefixBytes;
    size_bytes -= kPrefixBytes;
  }
  if (size_bytes < kHeaderBytes) return {};
  const bool little = std::memcmp(bytes, "II*\0", 4) == 0;
  if (!little && std::memcmp(bytes, "MM\0*", 4) != 0) return {};
  const TiffBytes tiff{bytes, little};
  const int64_t directory = tiff.number(4, 4);
  if (directory > size_bytes - 2) return {};
  const int64_t entries = tiff.number(directory, 2);
  for (int64_t i = 0, at = directory + 2; i < entries && at <= size_bytes - kEntryBytes; ++i, at += kEntryBytes)
    if (tiff.number(at, 2) == kTag)
      return tiff.number(at + 2, 2) == kShort ? orientation_of(tiff.number(at + 8, 2)) : Orientation();
  return {};
}

StoredPixels place_stored_pixels(uint8_t* pixels, int64_t stride_bytes, const Orientation& orientation, int32_t width,
                                 int32_t height) {
  StoredPixels out{pixels, 3, stride_bytes};
  if (orientation.transposed) out = {pixels, stride_bytes, 3};
  if (orientation.right_to_left) {
    out.first += (width - 1) * out.across_bytes;
    out.across_bytes = -out.across_bytes;
  }
  if (orientation.bottom_up) {
    out.first += (height - 1) * out.down_bytes;
    out.down_bytes = -out.down_bytes;
  }
  return out;
}

}  // namespace ocellus

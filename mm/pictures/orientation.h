// Orientation: the rotation and reflection of a stored picture, from EXIF (tag 274).
//
// Cameras store pixels in the order of their sensor and leave rotation to the viewer.
#pragma once

#include <cstdint>

namespace ocellus {

/// First stored rows and columns are reversed; then, if transposed, rows become columns.
struct Orientation {
  bool right_to_left = false;  // the stored row's first pixel is its last
  bool bottom_up = false;      // the stored first row is the last
  bool transposed = false;

  bool is_upright() const { return !right_to_left && !bottom_up && !transposed; }
  friend constexpr bool operator==(const Orientation&, const Orientation&) = default;
};

/// Reads the tag from EXIF data: a TIFF header and its first directory, in either byte order, with or without the six
/// bytes "Exif\0\0" before it. Upright if the data are damaged or have no tag; reads nothing outside `bytes`.
Orientation read_exif_orientation(const uint8_t* bytes, int64_t size_bytes);

/// Places of stored pixels in a rotated picture of RGB8.
struct StoredPixels {
  uint8_t* first = nullptr;  // pixel (0, 0) of the file
  int64_t across_bytes = 3;  // from a stored pixel to the next of its row
  int64_t down_bytes = 0;    // from a stored row to the next
};

/// Returns the places of `width` x `height` stored pixels in the picture at `pixels`, whose rows are `stride_bytes`
/// apart.
StoredPixels place_stored_pixels(uint8_t* pixels, int64_t stride_bytes, const Orientation& orientation, int32_t width,
                                 int32_t height);

}  // namespace ocellus

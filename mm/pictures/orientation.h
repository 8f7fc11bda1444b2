// Orientation: how a picture is to be turned before it is seen, as EXIF tells it (tag 274).
//
// Cameras store pixels as their sensor reads them and leave turning to whoever shows the picture.
#pragma once

#include <cstdint>

namespace ocellus {

/// First stored rows and columns are reversed, then, if transposed, rows become columns.
struct Orientation {
  bool right_to_left = false;  // the stored row's first pixel is its last
  bool bottom_up = false;      // the stored first row is the last
  bool transposed = false;

  bool is_upright() const { return !right_to_left && !bottom_up && !transposed; }
  friend constexpr bool operator==(const Orientation&, const Orientation&) = default;
};

/// Reads the tag from EXIF data: a TIFF header and its first directory, in either byte order, with or without the six
/// bytes "Exif\0\0" before it. Upright for everything that is damaged or says nothing; reads nothing outside `bytes`.
Orientation read_exif_orientation(const uint8_t* bytes, int64_t size_bytes);

/// Where stored pixels go in a picture of RGB8 that is turned.
struct StoredPixels {
  uint8_t* first = nullptr;  // pixel (0, 0) of the file
  int64_t across_bytes = 3;  // from a stored pixel to the next of its row
  int64_t down_bytes = 0;    // from a stored row to the next
};

/// For `width` x `height` stored pixels that make the picture at `pixels`, whose rows are `stride_bytes` apart.
StoredPixels place_stored_pixels(uint8_t* pixels, int64_t stride_bytes, const Orientation& orientation, int32_t width,
                                 int32_t height);

}  // namespace ocellus

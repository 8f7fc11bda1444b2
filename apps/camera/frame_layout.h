// FrameLayout: where the rows of a raw frame lie in the bytes of a stream, a file or a driver's buffer.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace ocellus::app {

struct PlaneLayout {
  int64_t row_bytes = 0;    // a row's pixels
  int64_t rows = 0;         // rows with pixels
  int64_t stride = 0;       // bytes from one row to the next
  int64_t stored_rows = 0;  // with those of padding below the picture
};

struct FrameLayout {
  std::array<PlaneLayout, 3> planes = {};  // missing planes have no rows

  // Bytes of a frame, and those of one whose last row lacks its padding.
  int64_t bytes() const;
  int64_t needed_bytes() const;
};

// Rows without padding, as ffmpeg writes them. No planes for a size that the format does not allow.
FrameLayout packed_layout(int32_t pixel_format, int32_t width, int32_t height);

// Rows of whole multiples of `alignment` bytes. With 4 and, in 4:2:0, an even number of luma rows they are GStreamer's
// (1.22.0; GstVideoInfo's defaults).
FrameLayout aligned_layout(int32_t pixel_format, int32_t width, int32_t height, int64_t alignment,
                           bool has_even_rows = false);
FrameLayout gstreamer_layout(int32_t pixel_format, int32_t width, int32_t height);

// Rows that are `stride` bytes apart in the first plane; those of I420 and I422 half as many in the others, rounded up,
// as V4L2 has them.
FrameLayout strided_layout(int32_t pixel_format, int32_t width, int32_t height, int64_t stride);

// Parses "gstreamer", "BYTES" or "BYTES,BYTES" (one for each plane); empty: packed. Throws a Failure for anything else,
// and for strides that are shorter than the rows or longer than 1 MiB.
FrameLayout parse_stride(const std::string& text, int32_t pixel_format, int32_t width, int32_t height);

// Copies the pixels without their padding; `to` may be `from`.
void pack_planes(const FrameLayout& layout, const uint8_t* from, uint8_t* to);
// Removes the padding of the frame that fills *bytes.
void pack_planes(const FrameLayout& layout, std::vector<uint8_t>* bytes);

}  // namespace ocellus::app

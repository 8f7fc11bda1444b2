// Reading a JPEG file's structure before a decoder sees it.
//
// The whole chain of segments is walked, across all scans, so that a decoder never meets a Huffman table that is
// missing, too long or over-subscribed, a component nobody coded, or a file that goes on scanning for ever.
#pragma once

#include <cstdint>

#include "mm/pictures/orientation.h"
#include "mm/pictures/rgb_image.h"
#include "platform/status.h"

namespace ocellus {

struct JpegFacts {
  int32_t width = 0;  // as stored
  int32_t height = 0;
  int32_t component_count = 0;  // 1, 3 or 4
  int32_t horizontal[4] = {};   // sampling factors, 1..4
  int32_t vertical[4] = {};
  bool progressive = false;
  bool in_one_scan = false;      // all components come together, once: it decodes row by row
  Orientation orientation;       // of the first EXIF segment
  int32_t adobe_transform = -1;  // of the APP14 segment: 0 RGB or CMYK, 1 YCbCr, 2 YCCK; -1 without one
};

/// A progressive file may refine its coefficients in this many scans; encoders use about ten.
inline constexpr int32_t kMaxJpegScans = 100;

/// kBadImage if the file is damaged, truncated or outside the limits; kUnsupported if it is a kind of JPEG we do not
/// decode (lossless, arithmetic-coded, hierarchical, 12-bit, four channels without an Adobe marker).
Status read_jpeg_header(const uint8_t* bytes, int64_t size_bytes, const ImageLimits& limits, JpegFacts* facts);

/// Samples of all component planes, padded to whole minimum coded units, of a picture of this layout.
int64_t jpeg_sample_count(const JpegFacts& facts);

}  // namespace ocellus

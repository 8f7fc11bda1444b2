// Validation of a JPEG file's structure before a decoder sees it.
//
// The whole chain of segments is walked, across all scans, so that a decoder never meets a Huffman table that is
// missing, too long or over-subscribed, a component without data, or a file with endless scans.
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
  bool in_one_scan = false;      // one scan with all components: decodes row by row
  int64_t lacks_tables_at = -1;  // place for the Huffman tables that a camera omits, as USB's video class allows
  Orientation orientation;       // from the first EXIF segment
  int32_t adobe_transform = -1;  // from the APP14 segment: 0 RGB or CMYK, 1 YCbCr, 2 YCCK; -1 without one
};

/// Maximum scans of a progressive file; encoders use about ten.
inline constexpr int32_t kMaxJpegScans = 100;

/// kBadImage if the file is damaged, truncated or outside the limits; kUnsupported for unsupported kinds of JPEG
/// (lossless, arithmetic-coded, hierarchical, 12-bit, four channels without an Adobe marker).
Status read_jpeg_header(const uint8_t* bytes, int64_t size_bytes, const ImageLimits& limits, JpegFacts* facts);

/// Number of samples of all component planes of a picture, padded to whole minimum coded units.
int64_t jpeg_sample_count(const JpegFacts& facts);

}  // namespace ocellus

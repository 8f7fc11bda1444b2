// Validation of a WebP file's structure before libwebp sees it.
//
// A WebP is a RIFF file: the picture is in a chunk "VP8 " (lossy) or "VP8L" (lossless); one "VP8X" before it announces
// chunks of alpha ("ALPH"), EXIF, colour profile and XMP.
#pragma once

#include <cstdint>
#include <cstring>

#include "mm/pictures/orientation.h"
#include "mm/pictures/rgb_image.h"
#include "platform/status.h"

namespace ocellus {

struct WebpFacts {
  int32_t width = 0;  // as stored
  int32_t height = 0;
  Orientation orientation;
  bool lossless = false;
  bool has_alpha = false;
  int64_t riff_bytes = 0;  // size up to the end of the RIFF; the rest of the file is ignored
};

inline constexpr int64_t kRiffHeaderBytes = 12;  // "RIFF", length, "WEBP"

/// True if the bytes begin like a WebP file.
inline bool is_webp(const uint8_t* bytes, int64_t size_bytes) {
  return size_bytes >= kRiffHeaderBytes && std::memcmp(bytes, "RIFF", 4) == 0 && std::memcmp(bytes + 8, "WEBP", 4) == 0;
}

/// Walks all chunks. kBadImage if the file is damaged, truncated or outside the limits; kUnsupported if it is animated,
/// and for every WebP in a build without libwebp.
Status read_webp_header(const uint8_t* bytes, int64_t size_bytes, const ImageLimits& limits, WebpFacts* facts);

}  // namespace ocellus

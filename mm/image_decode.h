// JPEG and PNG from memory to RGB8 in given scratch. No heap, no files, bounded time and bytes.
//
// The header is read by our own code, and every limit is checked, before a decoder sees the data. stb_image decodes the
// JPEG entropy stream and inflates PNG data; container parsing, PNG filters and colours are ours (mm/jpeg_header.h,
// mm/png_image.h), because that is where stb_image has had its memory errors.
//
// Accepted  JPEG: baseline, extended and progressive Huffman, 8 bits, grey, YCbCr or RGB, and CMYK/YCCK with an Adobe
//           marker. PNG: every colour type and depth, interlaced or not; animated PNG gives its default image.
// Colours   alpha and transparent colours are composited on white, as Hugging Face's processors do (llama.cpp drops
//           alpha); 16 bits are cut to the upper 8. Gamma and colour profiles are ignored, as llama.cpp does. PNG
//           checksums are not verified.
// Turned    as EXIF says (JPEG's APP1, PNG's eXIf): sizes and pixels are those of the picture as it is seen. EXIF that
//           is damaged turns nothing.
// Refused   GIF, BMP, WebP, HEIC, AVIF, TIFF, PDF and others by name; lossless, arithmetic-coded, hierarchical and
//           12-bit JPEG; JPEG without its own Huffman tables; everything truncated.
#pragma once

#include <cstdint>

#include "mm/rgb_image.h"
#include "platform/arena.h"
#include "platform/status.h"

namespace ocellus {

enum class ImageFormat : uint8_t { kJpeg, kPng };

/// What the header says. Decoding produces exactly width x height, which are turned as EXIF says.
struct ImageFacts {
  ImageFormat format = ImageFormat::kJpeg;
  int32_t width = 0;
  int32_t height = 0;
  int32_t channels = 0;       // in the file: 1 grey or palette, 2 grey + alpha, 3, 4 (RGBA or CMYK)
  int32_t bit_depth = 0;      // 1, 2, 4, 8, 16
  bool progressive = false;   // progressive JPEG or interlaced PNG
  int64_t scratch_bytes = 0;  // what decoding this very picture takes
};

/// Reads the header and walks the file's segments or chunks. kBadImage for anything damaged or outside `limits`,
/// kUnsupported for a sound file of a kind we do not decode; the sentence names the format and the reason.
Status probe_image(const uint8_t* bytes, int64_t size_bytes, const ImageLimits& limits, ImageFacts* facts);

/// Scratch with which every 8-bit picture inside `limits` decodes: JPEG with up to three channels (4:4:4 progressive is
/// the worst case: 9 bytes a pixel of planes and coefficients, 3 of output), baseline CMYK, PNG of up to 8 bits.
/// 16-bit PNG takes 11 bytes a pixel and up to 16 if it is noise; with progressive CMYK (15) it is the only kind that
/// may be refused for lack of scratch. In all 12 bytes a pixel, 63 for every pixel of the largest possible width +
/// height (padding to coded blocks), and about 50 kB.
int64_t decode_scratch_bytes(const ImageLimits& limits);

/// Decodes into `scratch`. On success out->pixels == scratch.data (rows tightly packed, 3 * width bytes), and
/// everything in the scratch after the picture may be used again: see scratch_after. Fails like probe_image, and with
/// kFull if the scratch is too small for this picture. scratch.data is aligned to at least 16 bytes.
Status decode_image(const uint8_t* bytes, int64_t size_bytes, const ImageLimits& limits, Extent scratch, RgbImage* out);

/// The part of `scratch` after a picture that lies at its front; all of it if the picture lies elsewhere.
Extent scratch_after(const RgbImage& image, Extent scratch);

}  // namespace ocellus

// JPEG, PNG, WebP, GIF, BMP, HEIC and AVIF from memory, row by row, in given scratch. No files, bounded time and
// memory.
//
// Our own code reads the header, and every limit is checked, before a decoder sees the data: see
// mm/pictures/jpeg_header.h, mm/pictures/jpeg_decoder.h, mm/pictures/png_image.h and mm/pictures/webp_header.h. A
// picture is decoded as a whole only if its file is not in the order of its rows, or its decoder works that way:
// progressive JPEG, JPEG in several scans, interlaced PNG and GIF, WebP, HEIC and AVIF. ImageLimits::max_whole_pixels
// bounds its memory.
//
// Accepted  JPEG: baseline, extended and progressive Huffman, 8 bits, grey, YCbCr or RGB, and CMYK/YCCK with an Adobe
//           marker. PNG: every colour type and depth, interlaced or not; animated PNG gives its default image.
//           WebP, in builds with libwebp: lossy and lossless, with alpha or without. GIF: the first frame; the others
//           by mm/pictures/gif_decoder.h. BMP without compression. HEIC and AVIF, in builds with libheif: the main
//           picture, in memory of libheif's own, see mm/pictures/heif_decoder.h. JPEGs of cameras without Huffman
//           tables are read by the standard's.
// Colours   alpha and transparent colours are composited on white, as Hugging Face's processors do (llama.cpp drops
//           alpha); 16 bits are cut to the upper 8, unless they are grey and depth (ImageLimits::depth). Gamma and
//           colour profiles are ignored, as llama.cpp does. PNG checksums are not verified.
// Rotation  by EXIF (JPEG's APP1, PNG's eXIf, WebP's EXIF): sizes and pixels are those of the rotated picture. Damaged
//           EXIF is ignored.
// Refused   TIFF, PDF and others by name; animated WebP, and all WebP, HEIC and AVIF in builds without their libraries;
//           lossless, arithmetic-coded, hierarchical and 12-bit JPEG; compressed BMP; everything truncated.
#pragma once

#include <cstdint>

#include "mm/pictures/jpeg_decoder.h"
#include "mm/pictures/row_consumer.h"
#include "platform/arena.h"
#include "platform/status.h"

namespace ocellus {

enum class ImageFormat : uint8_t { kJpeg, kPng, kWebp, kGif, kBmp, kHeif };
struct ImageProbe;  // everything read from a header

/// Facts of the header. Decoding produces exactly width x height, rotated by EXIF.
struct ImageFacts {
  ImageFormat format = ImageFormat::kJpeg;
  int32_t width = 0;
  int32_t height = 0;
  int32_t channels = 0;            // in the file: 1 grey or palette, 2 grey + alpha, 3, 4 (RGBA or CMYK)
  int32_t bit_depth = 0;           // 1, 2, 4, 8, 10, 12, 16
  bool progressive = false;        // progressive JPEG, interlaced PNG or GIF
  int32_t frame_count = 1;         // animated GIF: more
  int64_t hundredths = 0;          // all frames, in 1/100 s
  Orientation orientation = {};    // orientation of the stored rows; width and height are already rotated
  int64_t whole_pixels = 0;        // required limits.max_whole_pixels; 0: decoded row by row
  int64_t rows_scratch_bytes = 0;  // scratch for decoding this picture row by row
  int64_t scratch_bytes = 0;       // scratch for decoding it into memory as a whole; its frames, if there are more
};

/// Reads the header and walks the file's segments or chunks. kBadImage for anything damaged or outside `limits`,
/// kUnsupported for a valid file of an unsupported kind; the sentence names the format and the reason.
Status probe_image(const uint8_t* bytes, int64_t size_bytes, const ImageLimits& limits, ImageFacts* facts);

/// Bytes planned per pixel of pictures that are decoded as a whole; without a limit of their own, for 1920 x 1080
/// pixels or the maximum within the other limits. An interlaced PNG takes 3 bytes a pixel, a progressive JPEG 3
/// (4:2:0), 4 (4:2:2) or 6 (4:4:4), which then counts one and a half times, an interlaced GIF 3, a WebP 3 to 11: see
/// mm/pictures/webp_decoder.h.
inline constexpr int64_t kWholePixelBytes = 4;
inline constexpr int64_t kWholePixels = int64_t{1920} * 1080;

/// Scratch that suffices for every picture inside `limits`. It grows with the longest side, not with the number of
/// rows, and with max_whole_pixels. Builds without libjpeg-turbo decode every JPEG as a whole: 12 bytes a pixel.
int64_t decode_rows_scratch_bytes(const ImageLimits& limits);

/// The same, plus the picture itself.
int64_t decode_scratch_bytes(const ImageLimits& limits);

/// State that decoders keep from picture to picture.
class ImageDecoder {
 public:
  /// Call once before decoding: allocates a few kB. kIo if that fails.
  Status open() { return jpeg_.open(); }

  /// Passes every row to `rows` as stored, see ImageFacts::orientation. Fails like probe_image; with kFull if the
  /// scratch is too small for this picture; with kBadImage if its data are damaged, possibly after some rows.
  Status decode_rows(const uint8_t* bytes, int64_t size_bytes, const ImageLimits& limits, Extent scratch,
                     RowConsumer& rows);

  /// Decodes into `scratch`. On success out->pixels == scratch.data (rows tightly packed, 3 * width bytes).
  Status decode(const uint8_t* bytes, int64_t size_bytes, const ImageLimits& limits, Extent scratch, RgbImage* out);

 private:
  Status decode_probed(const uint8_t* bytes, int64_t size_bytes, const ImageProbe& found, Extent scratch,
                       RowConsumer& rows);

  JpegDecoder jpeg_;
};

}  // namespace ocellus

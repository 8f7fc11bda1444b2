#include "mm/image_decode.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "mm/block_allocator.h"
#include "mm/jpeg_header.h"
#include "mm/png_image.h"
#include "mm/stb_codecs.h"

namespace ocellus {
namespace {

struct Signature {
  const char* name;  // with its article
  int32_t offset;
  int32_t bytes;
  const char* pattern;
};

constexpr Signature kRefused[] = {
    {"a GIF", 0, 4, "GIF8"},
    {"a BMP", 0, 2, "BM"},
    {"a WebP", 8, 4, "WEBP"},
    {"a HEIC", 4, 8, "ftypheic"},
    {"a HEIC", 4, 8, "ftypheix"},
    {"a HEIF", 4, 8, "ftypmif1"},
    {"an AVIF", 4, 8, "ftypavif"},
    {"an AVIF", 4, 8, "ftypavis"},
    {"an MP4 or another ISO media", 4, 4, "ftyp"},
    {"a TIFF", 0, 4, "II*\0"},
    {"a TIFF", 0, 4, "MM\0*"},
    {"a PDF", 0, 5, "%PDF-"},
    {"a JPEG XL", 0, 2, "\xFF\x0A"},
    {"a JPEG XL", 4, 4, "JXL "},
    {"a JPEG 2000", 4, 4, "jP  "},
    {"a Photoshop", 0, 4, "8BPS"},
    {"an OpenEXR", 0, 4, "\x76\x2F\x31\x01"},
    {"a Radiance HDR", 0, 2, "#?"},
    {"an ICO", 0, 4, "\0\0\1\0"},
    {"a GGUF model", 0, 4, "GGUF"},
    {"an AVI", 8, 4, "AVI "},
    {"a zip archive", 0, 4, "PK\3\4"},
    {"an SVG or XML", 0, 4, "<svg"},
    {"an SVG or XML", 0, 5, "<?xml"},
    {"a netpbm", 0, 2, "P5"},
    {"a netpbm", 0, 2, "P6"},
};

constexpr uint8_t kPngSignature[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};

struct Probe {
  ImageFacts facts;
  JpegFacts jpeg;
  PngFacts png;
};

Status refuse_format(const uint8_t* bytes, int64_t size_bytes) {
  for (const Signature& refused : kRefused) {
    if (size_bytes >= refused.offset + refused.bytes &&
        std::memcmp(bytes + refused.offset, refused.pattern, static_cast<size_t>(refused.bytes)) == 0) {
      return OCELLUS_FAIL(Code::kUnsupported, "the picture is %s file: convert it to JPEG or PNG", refused.name);
    }
  }
  return OCELLUS_FAIL(Code::kBadImage, "the picture is neither a JPEG nor a PNG file");
}

int64_t jpeg_scratch_bytes(const JpegFacts& facts) {
  // The blocks the decoder takes: its state; samples and coefficients; a line and an alignment pad for each component;
  // the picture. The last term covers block rounding and the ends of an unaligned region.
  const int64_t samples = jpeg_sample_count(facts) * (facts.progressive ? 3 : 1);
  const int64_t lines = facts.component_count * (int64_t{facts.width} + 3 + 2 * 15);
  const int64_t picture = int64_t{3} * facts.width * facts.height + 1;
  return jpeg_state_bytes() + samples + lines + picture + 16 * BlockAllocator::block_bytes(1);
}

/// Turning takes a copy of the pixels as they are stored.
int64_t scratch_with_turn(int64_t bytes, const JpegFacts& facts) {
  const int64_t picture = int64_t{3} * facts.width * facts.height;
  return facts.orientation.is_upright() ? bytes : std::max(bytes, 2 * picture);
}

void turn_size(const Orientation& orientation, ImageFacts* facts) {
  if (orientation.transposed) std::swap(facts->width, facts->height);
}

Status probe(const uint8_t* bytes, int64_t size_bytes, const ImageLimits& limits, Probe* out) {
  if (size_bytes == 0) return OCELLUS_FAIL(Code::kBadImage, "the picture is empty: 0 bytes");
  if (bytes == nullptr || size_bytes < 0) return OCELLUS_FAIL(Code::kBadArgument, "the picture's bytes are null");
  if (size_bytes > limits.max_encoded_bytes) {
    return OCELLUS_FAIL(Code::kBadImage, "the picture file has %lld bytes, but at most %lld were planned: shrink it",
                        static_cast<long long>(size_bytes), static_cast<long long>(limits.max_encoded_bytes));
  }
  ImageFacts& facts = out->facts;
  if (size_bytes >= 8 && std::memcmp(bytes, kPngSignature, sizeof(kPngSignature)) == 0) {
    OCELLUS_TRY(read_png_header(bytes, size_bytes, limits, &out->png));
    facts = {ImageFormat::kPng,
             out->png.width,
             out->png.height,
             png_channels(out->png.color),
             out->png.bit_depth,
             out->png.interlaced,
             png_scratch_bytes(out->png)};
    turn_size(out->png.orientation, &facts);
    return {};
  }
  if (size_bytes >= 3 && bytes[0] == 0xFF && bytes[1] == 0xD8 && bytes[2] == 0xFF) {
    OCELLUS_TRY(read_jpeg_header(bytes, size_bytes, limits, &out->jpeg));
    facts = {ImageFormat::kJpeg,
             out->jpeg.width,
             out->jpeg.height,
             out->jpeg.component_count,
             8,
             out->jpeg.progressive,
             scratch_with_turn(jpeg_scratch_bytes(out->jpeg), out->jpeg)};
    turn_size(out->jpeg.orientation, &facts);
    return {};
  }
  return refuse_format(bytes, size_bytes);
}

/// Moves stored pixels to the front of the scratch, turned. `pixels` lie in the scratch.
void turn_pixels(const uint8_t* pixels, const JpegFacts& facts, Extent scratch) {
  auto* const front = reinterpret_cast<uint8_t*>(scratch.data);
  const int64_t row_bytes = int64_t{3} * facts.width;
  const auto picture_bytes = static_cast<size_t>(row_bytes * facts.height);
  if (facts.orientation.is_upright()) {
    std::memmove(front, pixels, picture_bytes);
    return;
  }
  uint8_t* const copy = front + scratch.bytes - picture_bytes;
  std::memmove(copy, pixels, picture_bytes);
  const StoredPixels stored = place_stored_pixels(front, facts.orientation, facts.width, facts.height);
  for (int32_t y = 0; y < facts.height; ++y) {
    const uint8_t* from = copy + y * row_bytes;
    uint8_t* to = stored.first + y * stored.down_bytes;
    for (int32_t x = 0; x < facts.width; ++x, from += 3, to += stored.across_bytes) std::copy_n(from, 3, to);
  }
}

Status decode_jpeg(const uint8_t* bytes, int64_t size_bytes, const JpegFacts& facts, Extent scratch, RgbImage* out) {
  BlockAllocator allocator(scratch);
  int32_t width = 0, height = 0;
  const char* reason = "";
  const uint8_t* pixels = decode_jpeg_rgb(bytes, size_bytes, allocator, &width, &height, &reason);
  if (pixels == nullptr && allocator.refused_bytes() != 0) {
    return OCELLUS_FAIL(Code::kFull,
                        "decoding the %d x %d JPEG ran out of its %lld bytes of scratch: plan for more pixels",
                        facts.width, facts.height, static_cast<long long>(scratch.bytes));
  }
  if (pixels == nullptr)
    return OCELLUS_FAIL(Code::kBadImage, "the JPEG cannot be decoded (%s): it is damaged or truncated", reason);
  if (width != facts.width || height != facts.height) {
    return OCELLUS_FAIL(Code::kInternal, "the JPEG decoder returned %d x %d pixels instead of %d x %d", width, height,
                        facts.width, facts.height);
  }
  turn_pixels(pixels, facts, scratch);
  *out = seen_picture(reinterpret_cast<uint8_t*>(scratch.data), facts.orientation, width, height);
  return {};
}

}  // namespace

Status probe_image(const uint8_t* bytes, int64_t size_bytes, const ImageLimits& limits, ImageFacts* facts) {
  Probe result;
  OCELLUS_TRY(probe(bytes, size_bytes, limits, &result));
  *facts = result.facts;
  return {};
}

int64_t decode_scratch_bytes(const ImageLimits& limits) {
  // What planes and coefficients take, and how many pixels a side is padded by.
  struct Layout {
    int64_t bytes_per_2_pixels;
    int64_t pad;
  };
  constexpr Layout kLayouts[] = {
      {18, 7},   // 4:4:4 progressive: 3 samples and 3 coefficients a pixel
      {12, 15},  // 4:2:2 and 4:2:0, progressive
      {9, 31},   // 4:1:1 and grey, progressive
      {8, 7},    // CMYK, baseline
  };
  const int64_t sides = max_side_sum(limits);
  int64_t planes = 0;
  for (const Layout& layout : kLayouts) {
    const int64_t padded = limits.max_pixels + layout.pad * sides + layout.pad * layout.pad;
    planes = std::max(planes, (padded * layout.bytes_per_2_pixels + 1) / 2);
  }
  const int64_t lines = 4 * (int64_t{limits.max_side} + 33);
  const int64_t jpeg =
      jpeg_state_bytes() + planes + lines + 3 * limits.max_pixels + 16 * BlockAllocator::block_bytes(1);
  const int64_t filtered = 4 * limits.max_pixels + 2 * sides + 16;
  const int64_t png = 2 * filtered + filtered / 8 + 4096;
  return aligned_bytes(std::max(jpeg, png));
}

Status decode_image(const uint8_t* bytes, int64_t size_bytes, const ImageLimits& limits, Extent scratch,
                    RgbImage* out) {
  Probe found;
  OCELLUS_TRY(probe(bytes, size_bytes, limits, &found));
  const ImageFacts& facts = found.facts;
  const char* name = facts.format == ImageFormat::kPng ? "PNG" : "JPEG";
  if (scratch.data == nullptr || scratch.bytes < facts.scratch_bytes) {
    return OCELLUS_FAIL(
        Code::kFull,
        "decoding the %d x %d %s with %d channels of %d bits takes %lld bytes of scratch, but %lld were "
        "planned: plan for more pixels or save the picture as 8-bit PNG or baseline JPEG",
        facts.width, facts.height, name, facts.channels, facts.bit_depth, static_cast<long long>(facts.scratch_bytes),
        static_cast<long long>(scratch.bytes));
  }
  if (facts.format == ImageFormat::kPng) return decode_png(bytes, size_bytes, found.png, scratch, out);
  return decode_jpeg(bytes, size_bytes, found.jpeg, scratch, out);
}

Extent scratch_after(const RgbImage& image, Extent scratch) {
  const auto* begin = reinterpret_cast<const std::byte*>(image.pixels);
  if (begin != scratch.data) return scratch;
  const int64_t used = std::min(scratch.bytes, (image.stride_bytes * image.height + 63) / 64 * 64);
  return {scratch.data + used, scratch.bytes - used};
}

}  // namespace ocellus

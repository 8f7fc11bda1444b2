#include "mm/pictures/image_decode.h"

#include <algorithm>
#include <cstring>

#include "mm/pictures/bmp_image.h"
#include "mm/pictures/gif_decoder.h"
#include "mm/pictures/heif_decoder.h"
#include "mm/pictures/jpeg_header.h"
#include "mm/pictures/jpeg_markers.h"
#include "mm/pictures/png_image.h"
#include "mm/pictures/webp_decoder.h"
#include "platform/round_up.h"

namespace ocellus {

struct ImageProbe {
  ImageFacts facts;
  JpegFacts jpeg;
  PngFacts png;
  WebpFacts webp;
  GifFacts gif;
  BmpFacts bmp;
  HeifFacts heif;
};

namespace {

struct Signature {
  const char* name;  // with its article
  int32_t offset;
  int32_t bytes;
  const char* pattern;
};

constexpr Signature kRefused[] = {
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
    {"an AVI", 8, 4, "AVI "},
    {"a zip archive", 0, 4, "PK\3\4"},
    {"an SVG or XML", 0, 4, "<svg"},
    {"an SVG or XML", 0, 5, "<?xml"},
    {"a netpbm", 0, 2, "P5"},
    {"a netpbm", 0, 2, "P6"},
};

constexpr uint8_t kPngSignature[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};

Status refuse_format(const uint8_t* bytes, int64_t size_bytes) {
  if (size_bytes >= 4 && std::memcmp(bytes, "GGUF", 4) == 0)  // a pattern for a model's parts names all of them
    return OCELLUS_FAIL(Code::kUnsupported,
                        "it is a GGUF model file, not a picture: give models with --model and --mmproj, and of a model "
                        "in parts only the first");
  for (const Signature& refused : kRefused) {
    if (size_bytes >= refused.offset + refused.bytes &&
        std::memcmp(bytes + refused.offset, refused.pattern, static_cast<size_t>(refused.bytes)) == 0) {
      return OCELLUS_FAIL(Code::kUnsupported, "the picture is %s file: convert it to JPEG or PNG", refused.name);
    }
  }
  return OCELLUS_FAIL(Code::kBadImage, "the picture is no JPEG, PNG, WebP, GIF, BMP, HEIC or AVIF file");
}

/// Sets the sizes after rotation, and the scratch. The part of `rows_bytes` beyond `rows_bound`, which is planned for
/// pictures of this size anyway, is for decoding it as a whole.
void set_sizes(const Orientation& orientation, int32_t width, int32_t height, int64_t rows_bytes, int64_t rows_bound,
               ImageFacts* facts) {
  const RgbImage seen = seen_picture(nullptr, orientation, width, height);
  facts->width = seen.width;
  facts->height = seen.height;
  facts->orientation = orientation;
  facts->whole_pixels = divide_up(std::max<int64_t>(rows_bytes - rows_bound, 0), kWholePixelBytes);
  facts->rows_scratch_bytes = rows_bytes;
  facts->scratch_bytes = aligned_bytes(int64_t{3} * width * height) + rows_bytes;
}

const char* format_name(ImageFormat format) {
  constexpr const char* kNames[] = {"JPEG", "PNG", "WebP", "GIF", "BMP", "HEIF"};  // in the order of ImageFormat
  return kNames[static_cast<int>(format)];
}

Status check_whole(const ImageFacts& facts, const ImageLimits& limits) {
  const int64_t planned = decode_rows_scratch_bytes(limits);
  if (facts.whole_pixels == 0 || facts.rows_scratch_bytes <= planned) return {};
  const char* kind = !facts.progressive ? "" : facts.format == ImageFormat::kJpeg ? "progressive " : "interlaced ";
  return OCELLUS_FAIL(
      Code::kBadImage,
      "the %d x %d %s%s must be decoded as a whole, which takes %lld bytes of scratch, but %lld were "
      "planned: plan for %lld whole pixels (max_whole_pixels, --whole-pixels), shrink it, or save it as "
      "baseline JPEG or as PNG that is not interlaced",
      facts.width, facts.height, kind, format_name(facts.format), static_cast<long long>(facts.rows_scratch_bytes),
      static_cast<long long>(planned), static_cast<long long>(facts.whole_pixels));
}

Status check_scratch(const ImageFacts& facts, int64_t needed_bytes, Extent scratch) {
  if (scratch.data != nullptr && scratch.bytes >= needed_bytes) return {};
  return OCELLUS_FAIL(Code::kFull, "decoding the %d x %d %s takes %lld bytes of scratch, but %lld were given",
                      facts.width, facts.height, format_name(facts.format), static_cast<long long>(needed_bytes),
                      static_cast<long long>(scratch.bytes));
}

bool is_png(const uint8_t* bytes, int64_t size_bytes) {
  return size_bytes >= 8 && std::memcmp(bytes, kPngSignature, sizeof(kPngSignature)) == 0;
}

Status probe_png(const uint8_t* bytes, int64_t size_bytes, const ImageLimits& limits, ImageProbe* out) {
  OCELLUS_TRY(read_png_header(bytes, size_bytes, limits, &out->png));
  const PngFacts& png = out->png;
  out->facts = {.format = ImageFormat::kPng,
                .channels = png_channels(png.color),
                .bit_depth = png.bit_depth,
                .progressive = png.interlaced};
  set_sizes(png.orientation, png.width, png.height, png_rows_scratch_bytes(png),
            png_rows_scratch_bound(std::max(png.width, png.height)), &out->facts);
  return {};
}

bool is_jpeg(const uint8_t* bytes, int64_t size_bytes) {
  return size_bytes >= 3 && bytes[0] == 0xFF && bytes[1] == jpeg::kSoi && bytes[2] == 0xFF;
}

Status probe_jpeg(const uint8_t* bytes, int64_t size_bytes, const ImageLimits& limits, ImageProbe* out) {
  OCELLUS_TRY(read_jpeg_header(bytes, size_bytes, limits, &out->jpeg));
  const JpegFacts& jpeg = out->jpeg;
  out->facts = {
      .format = ImageFormat::kJpeg, .channels = jpeg.component_count, .bit_depth = 8, .progressive = jpeg.progressive};
  const ImageLimits of_its_size = {.max_pixels = int64_t{jpeg.width} * jpeg.height,
                                   .max_side = std::max(jpeg.width, jpeg.height)};
  set_sizes(jpeg.orientation, jpeg.width, jpeg.height, jpeg_rows_scratch_bytes(jpeg),
            jpeg_rows_scratch_bound(of_its_size, 0), &out->facts);
  return {};
}

Status probe_webp(const uint8_t* bytes, int64_t size_bytes, const ImageLimits& limits, ImageProbe* out) {
  OCELLUS_TRY(read_webp_header(bytes, size_bytes, limits, &out->webp));
  const WebpFacts& webp = out->webp;
  out->facts = {.format = ImageFormat::kWebp, .channels = webp.has_alpha ? 4 : 3, .bit_depth = 8};
  set_sizes(webp.orientation, webp.width, webp.height, webp_rows_scratch_bytes(webp),
            png_rows_scratch_bound(std::max(webp.width, webp.height)), &out->facts);
  return {};
}

Status probe_gif(const uint8_t* bytes, int64_t size_bytes, const ImageLimits& limits, ImageProbe* out) {
  OCELLUS_TRY(read_gif_header(bytes, size_bytes, limits, &out->gif));
  const GifFacts& gif = out->gif;
  out->facts = {.format = ImageFormat::kGif,
                .channels = 1,
                .bit_depth = 8,
                .progressive = gif.first.interlaced,
                .frame_count = gif.frame_count,
                .hundredths = gif.hundredths};
  set_sizes({}, gif.width, gif.height, gif_rows_scratch_bytes(gif),
            gif_rows_scratch_bound(std::max(gif.width, gif.height)), &out->facts);
  if (gif.frame_count > 1)
    out->facts.scratch_bytes = std::max(out->facts.scratch_bytes, gif_animation_bytes(gif.width, gif.height));
  return {};
}

Status probe_bmp(const uint8_t* bytes, int64_t size_bytes, const ImageLimits& limits, ImageProbe* out) {
  OCELLUS_TRY(read_bmp_header(bytes, size_bytes, limits, &out->bmp));
  const BmpFacts& bmp = out->bmp;
  out->facts = {.format = ImageFormat::kBmp, .channels = bmp.masks[3] != 0 ? 4 : 3, .bit_depth = 8};
  const int64_t scratch_bytes = bmp_rows_scratch_bytes(bmp.width);
  set_sizes({.bottom_up = bmp.bottom_up}, bmp.width, bmp.height, scratch_bytes, scratch_bytes, &out->facts);
  return {};
}

Status probe_heif(const uint8_t* bytes, int64_t size_bytes, const ImageLimits& limits, ImageProbe* out) {
  OCELLUS_TRY(read_heif_header(bytes, size_bytes, limits, &out->heif));
  const HeifFacts& heif = out->heif;
  out->facts = {.format = ImageFormat::kHeif, .channels = heif.has_alpha ? 4 : 3, .bit_depth = heif.bit_depth};
  set_sizes({}, heif.width, heif.height, heif_rows_scratch_bytes(heif), bmp_rows_scratch_bytes(heif.width),
            &out->facts);
  return {};
}

/// The formats that are read, each by its first bytes.
struct Reader {
  bool (*begins)(const uint8_t* bytes, int64_t size_bytes);
  Status (*probe)(const uint8_t* bytes, int64_t size_bytes, const ImageLimits& limits, ImageProbe* out);
};
constexpr Reader kReaders[] = {{is_png, probe_png}, {is_jpeg, probe_jpeg}, {is_webp, probe_webp},
                               {is_gif, probe_gif}, {is_bmp, probe_bmp},   {is_heif, probe_heif}};

Status probe(const uint8_t* bytes, int64_t size_bytes, const ImageLimits& limits, ImageProbe* out) {
  if (size_bytes == 0) return OCELLUS_FAIL(Code::kBadImage, "the picture is empty: 0 bytes");
  if (bytes == nullptr || size_bytes < 0) return OCELLUS_FAIL(Code::kBadArgument, "the picture's bytes are null");
  if (size_bytes > limits.max_encoded_bytes) {
    return OCELLUS_FAIL(Code::kBadImage, "the picture file has %lld bytes, but at most %lld were planned: shrink it",
                        static_cast<long long>(size_bytes), static_cast<long long>(limits.max_encoded_bytes));
  }
  for (const Reader& reader : kReaders) {
    if (!reader.begins(bytes, size_bytes)) continue;
    OCELLUS_TRY(reader.probe(bytes, size_bytes, limits, out));
    return check_whole(out->facts, limits);
  }
  return refuse_format(bytes, size_bytes);
}

int64_t most_whole_bytes(const ImageLimits& limits) {
  return kWholePixelBytes * (limits.max_whole_pixels > 0 ? limits.max_whole_pixels : kWholePixels);
}

/// Scratch of pictures that are decoded as a whole: as coefficients, padded to whole blocks.
int64_t whole_scratch_bytes(const ImageLimits& limits) {
  if (limits.max_whole_pixels > 0) return most_whole_bytes(limits);
  struct Layout {
    int64_t pixel_bytes;
    int64_t pad;  // maximum padding of a side
  };
  constexpr Layout kLayouts[] = {{6, 7}, {4, 15}, {3, 31}};  // 4:4:4, 4:2:2, 4:1:1 and 4:2:0
  constexpr int64_t kRowBytes = 16;
  const int64_t sides = max_side_sum(limits);
  int64_t most = 0;
  for (const Layout& layout : kLayouts)
    most = std::max(most, layout.pixel_bytes * (limits.max_pixels + layout.pad * sides + layout.pad * layout.pad));
  return std::min(most + kRowBytes * sides, most_whole_bytes(limits));
}

}  // namespace

Status probe_image(const uint8_t* bytes, int64_t size_bytes, const ImageLimits& limits, ImageFacts* facts) {
  ImageProbe result;
  OCELLUS_TRY(probe(bytes, size_bytes, limits, &result));
  *facts = result.facts;
  return {};
}

int64_t decode_rows_scratch_bytes(const ImageLimits& limits) {
  const int64_t whole = whole_scratch_bytes(limits);
  const int64_t side = std::min<int64_t>(limits.max_side, max_side_sum(limits));
  const int64_t webp = std::min(webp_rows_scratch_bound(limits), most_whole_bytes(limits));
  return aligned_bytes(std::max({jpeg_rows_scratch_bound(limits, whole), png_rows_scratch_bound(side) + whole,
                                 gif_rows_scratch_bound(side) + whole, webp}));
}

int64_t decode_scratch_bytes(const ImageLimits& limits) {
  return aligned_bytes(3 * limits.max_pixels) + decode_rows_scratch_bytes(limits);
}

Status ImageDecoder::decode_probed(const uint8_t* bytes, int64_t size_bytes, const ImageProbe& found, Extent scratch,
                                   RowConsumer& rows) {
  switch (found.facts.format) {
    case ImageFormat::kJpeg: return jpeg_.decode_rows(bytes, size_bytes, found.jpeg, scratch, rows);
    case ImageFormat::kPng: return decode_png_rows(bytes, size_bytes, found.png, scratch, rows);
    case ImageFormat::kWebp: return decode_webp_rows(bytes, size_bytes, found.webp, scratch, rows);
    case ImageFormat::kGif: return decode_gif_rows(found.gif, scratch, rows);
    case ImageFormat::kBmp: return decode_bmp_rows(found.bmp, scratch, rows);
    case ImageFormat::kHeif: return decode_heif_rows(bytes, size_bytes, found.heif, rows);
  }
  return OCELLUS_FAIL(Code::kInternal, "a picture of an unknown format was to be decoded");
}

Status ImageDecoder::decode_rows(const uint8_t* bytes, int64_t size_bytes, const ImageLimits& limits, Extent scratch,
                                 RowConsumer& rows) {
  ImageProbe found;
  OCELLUS_TRY(probe(bytes, size_bytes, limits, &found));
  OCELLUS_TRY(check_scratch(found.facts, found.facts.rows_scratch_bytes, scratch));
  return decode_probed(bytes, size_bytes, found, scratch, rows);
}

Status ImageDecoder::decode(const uint8_t* bytes, int64_t size_bytes, const ImageLimits& limits, Extent scratch,
                            RgbImage* out) {
  ImageProbe found;
  OCELLUS_TRY(probe(bytes, size_bytes, limits, &found));
  const ImageFacts& facts = found.facts;
  OCELLUS_TRY(check_scratch(facts, facts.scratch_bytes, scratch));
  auto* const pixels = reinterpret_cast<uint8_t*>(scratch.data);
  const RgbImage seen = {pixels, facts.width, facts.height, int64_t{3} * facts.width};
  const Orientation& turn = facts.orientation;
  const int32_t length = turn.transposed ? seen.height : seen.width, rows = turn.transposed ? seen.width : seen.height;
  PixelWriter writer(place_stored_pixels(pixels, seen.stride_bytes, turn, length, rows), length);
  const int64_t picture_bytes = aligned_bytes(seen.stride_bytes * seen.height);
  OCELLUS_TRY(
      decode_probed(bytes, size_bytes, found, {scratch.data + picture_bytes, scratch.bytes - picture_bytes}, writer));
  *out = seen;
  return {};
}

}  // namespace ocellus

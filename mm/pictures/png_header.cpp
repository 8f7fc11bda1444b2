#include <climits>
#include <cstring>

#include "mm/pictures/png_image.h"
#include "mm/pictures/png_passes.h"

namespace ocellus {
namespace {

Status check_layout(const PngFacts& facts) {
  const int depth = facts.bit_depth;
  const bool small = depth == 1 || depth == 2 || depth == 4;
  bool sound = false;
  switch (facts.color) {
    case PngColor::kGray: sound = small || depth == 8 || depth == 16; break;
    case PngColor::kPalette: sound = small || depth == 8; break;
    case PngColor::kRgb:
    case PngColor::kGrayAlpha:
    case PngColor::kRgba: sound = depth == 8 || depth == 16; break;
  }
  if (sound) return {};
  return OCELLUS_FAIL(Code::kBadImage, "the PNG has colour type %d with %d bits, which does not exist",
                      static_cast<int>(facts.color), depth);
}

Status read_header_chunk(const PngChunk& chunk, const ImageLimits& limits, PngFacts* facts) {
  if (!chunk.is("IHDR") || chunk.bytes != 13) {
    if (chunk.is("CgBI")) {
      return OCELLUS_FAIL(Code::kUnsupported, "the PNG is Apple's CgBI variant: convert it to a standard PNG");
    }
    return OCELLUS_FAIL(Code::kBadImage, "the PNG does not start with a header chunk: it is damaged");
  }
  const uint8_t* data = chunk.data;
  OCELLUS_TRY(check_image_size(limits, "PNG", read_be32(data), read_be32(data + 4)));
  facts->width = static_cast<int32_t>(read_be32(data));
  facts->height = static_cast<int32_t>(read_be32(data + 4));
  facts->bit_depth = data[8];
  facts->color = static_cast<PngColor>(data[9]);
  facts->interlaced = data[12] == 1;
  if (data[10] != 0 || data[11] != 0 || data[12] > 1) {
    return OCELLUS_FAIL(Code::kBadImage, "the PNG asks for compression %d, filter %d and interlace %d: it is damaged",
                        data[10], data[11], data[12]);
  }
  return check_layout(*facts);
}

Status read_palette(const PngChunk& chunk, PngFacts* facts, int32_t* entries) {
  if (chunk.bytes == 0 || chunk.bytes % 3 != 0 || chunk.bytes > 768 || *entries != 0) {
    return OCELLUS_FAIL(Code::kBadImage, "the PNG has a damaged palette");
  }
  *entries = static_cast<int32_t>(chunk.bytes / 3);
  std::memcpy(facts->palette, chunk.data, static_cast<size_t>(chunk.bytes));
  return {};
}

Status read_transparency(const PngChunk& chunk, int32_t palette_entries, PngFacts* facts) {
  const int64_t color_bytes = facts->color == PngColor::kGray ? 2 : 6;
  switch (facts->color) {
    case PngColor::kPalette:
      if (chunk.bytes > palette_entries) break;
      for (int64_t i = 0; i < chunk.bytes; ++i) {
        for (uint8_t& value : facts->palette[i]) value = blend_on_white(value, chunk.data[i]);
      }
      return {};
    case PngColor::kGray:
    case PngColor::kRgb:
      if (chunk.bytes != color_bytes || facts->has_transparent_color) break;
      facts->has_transparent_color = true;
      for (int i = 0; 2 * i < color_bytes; ++i) {
        facts->transparent[i] = static_cast<uint16_t>(chunk.data[2 * i] << 8 | chunk.data[2 * i + 1]);
      }
      return {};
    default: break;
  }
  return OCELLUS_FAIL(Code::kBadImage, "the PNG has a damaged transparency chunk");
}

Status read_chunk(const PngChunk& chunk, int32_t* palette_entries, PngFacts* facts) {
  if (chunk.is("IDAT")) {
    if (facts->color == PngColor::kPalette && *palette_entries == 0) {
      return OCELLUS_FAIL(Code::kBadImage, "the PNG uses a palette but has none");
    }
    if (facts->data_chunks++ == 0) facts->first_data = chunk.data;
    facts->data_bytes += chunk.bytes;
    return {};
  }
  if (chunk.is("PLTE"))
    return facts->color == PngColor::kPalette ? read_palette(chunk, facts, palette_entries) : Status();
  if (chunk.is("tRNS") && facts->data_chunks == 0) return read_transparency(chunk, *palette_entries, facts);
  if (chunk.is("eXIf")) facts->orientation = read_exif_orientation(chunk.data, chunk.bytes);
  if (chunk.is_critical()) {
    return OCELLUS_FAIL(Code::kUnsupported,
                        "the PNG has an unknown critical chunk: it is damaged or uses an extension");
  }
  return {};
}

Status check_data(const PngFacts& facts) {
  if (facts.data_bytes == 0) return OCELLUS_FAIL(Code::kBadImage, "the PNG has no pixel data");
  if (facts.filtered_bytes > INT_MAX) return OCELLUS_FAIL(Code::kBadImage, "the PNG's rows take more than 2 GiB");
  // Deflate never expands data by an eighth; a longer stream has empty blocks that only cost time.
  if (facts.data_bytes > facts.filtered_bytes + facts.filtered_bytes / 8 + 4096) {
    return OCELLUS_FAIL(Code::kBadImage, "the PNG has far more compressed data than pixels: it is damaged");
  }
  return {};
}

}  // namespace

int32_t png_channels(PngColor color) {
  switch (color) {
    case PngColor::kGray:
    case PngColor::kPalette: return 1;
    case PngColor::kGrayAlpha: return 2;
    case PngColor::kRgb: return 3;
    case PngColor::kRgba: return 4;
  }
  return 0;
}

Status read_png_header(const uint8_t* bytes, int64_t size_bytes, const ImageLimits& limits, PngFacts* facts) {
  *facts = PngFacts();
  facts->depth = limits.depth;
  PngChunks chunks(bytes, size_bytes);
  PngChunk chunk;
  OCELLUS_TRY(chunks.next(&chunk));
  OCELLUS_TRY(read_header_chunk(chunk, limits, facts));
  for (int pass = 0; pass < pass_count(*facts); ++pass) {
    const PngPass area = png_pass(*facts, pass);
    if (area.width > 0) facts->filtered_bytes += area.height * (1 + png_row_bytes(*facts, area.width));
  }
  int32_t palette_entries = 0;
  for (;;) {
    OCELLUS_TRY(chunks.next(&chunk));
    if (chunk.is("IEND")) return check_data(*facts);
    OCELLUS_TRY(read_chunk(chunk, &palette_entries, facts));
  }
}

}  // namespace ocellus

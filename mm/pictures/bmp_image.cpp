#include "mm/pictures/bmp_image.h"

#include <bit>
#include <cstring>

#include "platform/round_up.h"

namespace ocellus {
namespace {

constexpr int64_t kFileHeaderBytes = 14;
constexpr uint32_t kCoreBytes = 12, kInfoBytes = 40;  // the oldest header, and the one that all others begin with
constexpr uint32_t kHeaderSizes[] = {kCoreBytes, kInfoBytes, 52, 56, 108, 124};
enum Compression : uint32_t { kNone = 0, kRle8 = 1, kRle4 = 2, kMasks = 3, kJpeg = 4, kPng = 5, kAlphaMasks = 6 };

uint32_t read_le16(const uint8_t* at) { return static_cast<uint32_t>(at[0] | at[1] << 8); }
uint32_t read_le32(const uint8_t* at) { return read_le16(at) | read_le16(at + 2) << 16; }

Status truncated() { return OCELLUS_FAIL(Code::kBadImage, "the BMP ends before its picture: the file is truncated"); }

struct Layout {
  uint32_t header_bytes = 0, compression = kNone, colors_used = 0;
};

Status check_kind(const Layout& layout, int32_t pixel_bits) {
  if (layout.compression == kRle8 || layout.compression == kRle4)
    return OCELLUS_FAIL(Code::kUnsupported, "the BMP is run-length coded: save it without compression, or as PNG");
  if (layout.compression == kJpeg || layout.compression == kPng)
    return OCELLUS_FAIL(Code::kUnsupported, "the BMP has a JPEG or PNG inside: save it as that");
  const bool is_masked = layout.compression == kMasks || layout.compression == kAlphaMasks;
  const bool has_palette = pixel_bits == 1 || pixel_bits == 4 || pixel_bits == 8;
  const bool is_direct = pixel_bits == 16 || pixel_bits == 24 || pixel_bits == 32;
  if (layout.compression > kAlphaMasks || !(has_palette || is_direct) ||
      (is_masked && (has_palette || pixel_bits == 24)))
    return OCELLUS_FAIL(Code::kBadImage, "the BMP has %d bits a pixel and compression %u: it is damaged", pixel_bits,
                        layout.compression);
  return {};
}

/// `at`: after the first 40 bytes of the header.
Status read_masks(const Layout& layout, const uint8_t* at, const uint8_t* end, BmpFacts* facts) {
  const bool is_16 = facts->pixel_bits == 16;
  if (layout.compression == kNone) {
    const uint32_t usual[2][3] = {{0xFF0000, 0xFF00, 0xFF}, {0x7C00, 0x3E0, 0x1F}};
    std::memcpy(facts->masks, usual[is_16], sizeof usual[is_16]);
    return {};
  }
  const int count = layout.header_bytes >= 56 || layout.compression == kAlphaMasks ? 4 : 3;
  if (end - at < 4 * count) return truncated();
  uint32_t seen = 0;
  for (int i = 0; i < count; ++i) {
    const uint32_t mask = facts->masks[i] = read_le32(at + 4 * i);
    const uint32_t shifted = mask == 0 ? 0 : mask >> std::countr_zero(mask);
    if ((mask == 0 && i < 3) || (shifted & (shifted + 1)) != 0 || (seen & mask) != 0 || (is_16 && mask > 0xFFFF))
      return OCELLUS_FAIL(Code::kBadImage, "the BMP has the mask %08X for a colour: it is damaged",
                          static_cast<unsigned>(mask));
    seen |= mask;
  }
  return {};
}

Status read_palette(const Layout& layout, const uint8_t* at, const uint8_t* end, BmpFacts* facts) {
  const uint32_t most = 1u << facts->pixel_bits;
  const uint32_t count = layout.colors_used == 0 || layout.colors_used > most ? most : layout.colors_used;
  facts->palette = at;
  facts->color_count = static_cast<int32_t>(count);
  facts->color_bytes = layout.header_bytes == kCoreBytes ? 3 : 4;
  return end - at < int64_t{facts->color_bytes} * facts->color_count ? truncated() : Status();
}

uint32_t read_pixel(const BmpFacts& facts, const uint8_t* row, int64_t x) {
  return facts.pixel_bits == 16 ? read_le16(row + 2 * x) : read_le32(row + 4 * x);
}

/// A channel of 8 bits, rounded down as Pillow does.
uint8_t channel(uint32_t pixel, uint32_t mask) {
  const int shift = std::countr_zero(mask);
  const uint64_t most = mask >> shift;
  return static_cast<uint8_t>(uint64_t{(pixel & mask) >> shift} * 255 / most);
}

/// Programs that know no alpha leave it at zero everywhere.
bool has_alpha(const BmpFacts& facts) {
  if (facts.masks[3] == 0) return false;
  for (int32_t y = 0; y < facts.height; ++y) {
    const uint8_t* const row = facts.pixels + y * facts.row_bytes;
    for (int32_t x = 0; x < facts.width; ++x)
      if ((read_pixel(facts, row, x) & facts.masks[3]) != 0) return true;
  }
  return false;
}

void unpack_palette(const BmpFacts& facts, const uint8_t* row, uint8_t* rgb) {
  const int bits = facts.pixel_bits, per_byte = 8 / bits;
  for (int32_t x = 0; x < facts.width; ++x, rgb += 3) {
    const int32_t index = row[x / per_byte] >> (8 - bits * (x % per_byte + 1)) & ((1 << bits) - 1);
    const uint8_t* const color = facts.palette + int64_t{facts.color_bytes} * index;
    for (int c = 0; c < 3; ++c) rgb[c] = index < facts.color_count ? color[2 - c] : uint8_t{0};
  }
}

void unpack_masks(const BmpFacts& facts, const uint8_t* row, uint8_t* rgb) {
  for (int32_t x = 0; x < facts.width; ++x, rgb += 3) {
    const uint32_t pixel = read_pixel(facts, row, x);
    const uint8_t alpha = facts.masks[3] == 0 ? uint8_t{255} : channel(pixel, facts.masks[3]);
    for (int c = 0; c < 3; ++c) rgb[c] = blend_on_white(channel(pixel, facts.masks[c]), alpha);
  }
}

}  // namespace

bool is_bmp(const uint8_t* bytes, int64_t size_bytes) {
  if (size_bytes < kFileHeaderBytes + 4 || bytes[0] != 'B' || bytes[1] != 'M') return false;
  const uint32_t header_bytes = read_le32(bytes + kFileHeaderBytes);
  for (const uint32_t known : kHeaderSizes)
    if (header_bytes == known) return true;
  return false;
}

Status read_bmp_header(const uint8_t* bytes, int64_t size_bytes, const ImageLimits& limits, BmpFacts* facts) {
  *facts = BmpFacts();
  const uint8_t* const end = bytes + size_bytes;
  const uint8_t* const header = bytes + kFileHeaderBytes;
  Layout layout = {.header_bytes = read_le32(header)};
  if (end - header < layout.header_bytes) return truncated();
  const bool is_core = layout.header_bytes == kCoreBytes;
  const int64_t width = is_core ? int64_t{read_le16(header + 4)} : static_cast<int32_t>(read_le32(header + 4));
  const int64_t height = is_core ? int64_t{read_le16(header + 6)} : static_cast<int32_t>(read_le32(header + 8));
  facts->pixel_bits = static_cast<int32_t>(read_le16(header + (is_core ? 10 : 14)));
  if (!is_core) {
    layout.compression = read_le32(header + 16);
    layout.colors_used = read_le32(header + 32);
  }
  OCELLUS_TRY(check_kind(layout, facts->pixel_bits));
  facts->bottom_up = height > 0;
  OCELLUS_TRY(check_image_size(limits, "BMP", width, height < 0 ? -height : height));
  facts->width = static_cast<int32_t>(width);
  facts->height = static_cast<int32_t>(height < 0 ? -height : height);
  const uint8_t* const behind = header + layout.header_bytes;
  if (facts->pixel_bits <= 8) OCELLUS_TRY(read_palette(layout, behind, end, facts));
  if (facts->pixel_bits == 16 || facts->pixel_bits == 32)
    OCELLUS_TRY(read_masks(layout, header + kInfoBytes, end, facts));
  const int64_t offset = read_le32(bytes + 10);
  facts->row_bytes = round_up(divide_up(width * facts->pixel_bits, 8), 4);
  if (offset < behind - bytes || offset > size_bytes || size_bytes - offset < facts->row_bytes * facts->height)
    return truncated();
  facts->pixels = bytes + offset;
  if (!has_alpha(*facts)) facts->masks[3] = 0;
  return {};
}

Status decode_bmp_rows(const BmpFacts& facts, Extent scratch, RowConsumer& rows) {
  if (scratch.bytes < bmp_rows_scratch_bytes(facts.width))
    return OCELLUS_FAIL(Code::kFull, "a BMP takes a row of %lld bytes of scratch, but %lld were given",
                        static_cast<long long>(bmp_rows_scratch_bytes(facts.width)),
                        static_cast<long long>(scratch.bytes));
  auto* const rgb = reinterpret_cast<uint8_t*>(scratch.data);
  for (int32_t y = 0; y < facts.height; ++y) {
    const uint8_t* const row = facts.pixels + y * facts.row_bytes;
    if (facts.pixel_bits <= 8) {
      unpack_palette(facts, row, rgb);
    } else if (facts.pixel_bits == 24) {
      for (int32_t x = 0; x < facts.width; ++x)
        for (int c = 0; c < 3; ++c) rgb[3 * x + c] = row[3 * x + 2 - c];
    } else {
      unpack_masks(facts, row, rgb);
    }
    rows.take(rgb);
  }
  return {};
}

}  // namespace ocellus

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "mm/png_image.h"
#include "mm/png_passes.h"
#include "mm/stb_codecs.h"

namespace ocellus {
namespace {

int paeth(int left, int above, int corner) {
  const int from_left = std::abs(above - corner), from_above = std::abs(left - corner);
  const int from_corner = std::abs(left + above - 2 * corner);
  if (from_left <= from_above && from_left <= from_corner) return left;
  return from_above <= from_corner ? above : corner;
}

/// Undoes the filter of one row in place. `above` is the row before it, already done; null for the first of a pass,
/// where everything above counts as zero. `step` is the distance in bytes to the pixel on the left.
Status unfilter_row(int filter, uint8_t* row, const uint8_t* above, int64_t bytes, int64_t step) {
  enum Filter { kNone, kLeft, kAbove, kAverage, kPaeth };
  if (filter > kPaeth) {
    return OCELLUS_FAIL(Code::kBadImage, "the PNG has a row with filter %d: its pixel data is damaged", filter);
  }
  const auto add = [row](int64_t i, int value) { row[i] = static_cast<uint8_t>(row[i] + value); };
  const int64_t first = std::min(step, bytes);  // bytes with nothing on their left
  if (above == nullptr) {
    if (filter == kLeft || filter == kPaeth) {
      for (int64_t i = first; i < bytes; ++i) add(i, row[i - step]);
    } else if (filter == kAverage) {
      for (int64_t i = first; i < bytes; ++i) add(i, row[i - step] / 2);
    }
    return {};
  }
  if (filter == kAbove || filter == kPaeth) {
    for (int64_t i = 0; i < (filter == kAbove ? bytes : first); ++i) add(i, above[i]);
  } else if (filter == kAverage) {
    for (int64_t i = 0; i < first; ++i) add(i, above[i] / 2);
  }
  if (filter == kLeft) {
    for (int64_t i = first; i < bytes; ++i) add(i, row[i - step]);
  } else if (filter == kAverage) {
    for (int64_t i = first; i < bytes; ++i) add(i, (row[i - step] + above[i]) / 2);
  } else if (filter == kPaeth) {
    for (int64_t i = first; i < bytes; ++i) add(i, paeth(row[i - step], above[i], above[i - step]));
  }
  return {};
}

// Sample `index` of a row as stored: 1 to 16 bits.
int read_sample(const uint8_t* row, int64_t index, int bit_depth) {
  if (bit_depth == 8) return row[index];
  if (bit_depth == 16) return row[2 * index] << 8 | row[2 * index + 1];
  const int64_t bit = index * bit_depth;
  return row[bit / 8] >> (8 - bit_depth - bit % 8) & ((1 << bit_depth) - 1);
}

// 8-bit value of a grey or colour sample: small depths are spread over 0..255, 16 bits lose the lower eight.
int to_8_bits(int sample, int bit_depth) {
  if (bit_depth == 16) return sample >> 8;
  return sample * 255 / ((1 << bit_depth) - 1);
}

/// One row of a pass to RGB, writing a pixel every `step` bytes, which may lead backwards.
void expand_row(const PngFacts& facts, const uint8_t* row, int32_t width, uint8_t* out, int64_t step) {
  const int depth = facts.bit_depth;
  const int channels = png_channels(facts.color);
  if (facts.color == PngColor::kRgb && depth == 8 && !facts.has_transparent_color && step == 3) {
    std::memcpy(out, row, static_cast<size_t>(width) * 3);
    return;
  }
  const bool is_gray = facts.color == PngColor::kGray || facts.color == PngColor::kGrayAlpha;
  const bool has_alpha = facts.color == PngColor::kGrayAlpha || facts.color == PngColor::kRgba;
  for (int32_t x = 0; x < width; ++x, out += step) {
    const int64_t first = int64_t{x} * channels;
    if (facts.color == PngColor::kPalette) {
      std::memcpy(out, facts.palette[read_sample(row, first, depth)], 3);
      continue;
    }
    const int colors = is_gray ? 1 : 3;
    bool is_transparent = facts.has_transparent_color;
    int rgb[3];
    for (int c = 0; c < colors; ++c) {
      const int sample = read_sample(row, first + c, depth);
      is_transparent = is_transparent && sample == facts.transparent[c];
      rgb[c] = to_8_bits(sample, depth);
    }
    const int alpha = has_alpha ? to_8_bits(read_sample(row, first + colors, depth), depth) : is_transparent ? 0 : 255;
    for (int c = 0; c < 3; ++c) out[c] = blend_on_white(rgb[is_gray ? 0 : c], alpha);
  }
}

/// Inflates all IDAT chunks into `filtered`, joining them at `joined` if there are several.
Status inflate_rows(const uint8_t* bytes, int64_t size_bytes, const PngFacts& facts, uint8_t* joined,
                    uint8_t* filtered) {
  const uint8_t* stream = facts.first_data;
  if (facts.data_chunks > 1) {
    PngChunks chunks(bytes, size_bytes);
    PngChunk chunk;
    uint8_t* end = joined;
    do {
      OCELLUS_TRY(chunks.next(&chunk));
      if (!chunk.is("IDAT")) continue;
      std::memcpy(end, chunk.data, static_cast<size_t>(chunk.bytes));
      end += chunk.bytes;
    } while (!chunk.is("IEND"));
    stream = joined;
  }
  std::memset(filtered, 0, static_cast<size_t>(facts.filtered_bytes));
  const int64_t written = inflate_zlib(stream, facts.data_bytes, filtered, facts.filtered_bytes);
  if (written == facts.filtered_bytes) return {};
  return OCELLUS_FAIL(Code::kBadImage,
                      "the PNG's pixel data does not inflate to the %d x %d pixels of its header: it is damaged",
                      facts.width, facts.height);
}

}  // namespace

int64_t png_scratch_bytes(const PngFacts& facts) {
  const int64_t picture = int64_t{3} * facts.width * facts.height;
  const int64_t joined = facts.data_chunks > 1 ? facts.data_bytes : 0;
  return facts.filtered_bytes + std::max(picture, joined);
}

Status decode_png(const uint8_t* bytes, int64_t size_bytes, const PngFacts& facts, Extent scratch, RgbImage* out) {
  auto* picture = reinterpret_cast<uint8_t*>(scratch.data);
  uint8_t* filtered = picture + scratch.bytes - facts.filtered_bytes;
  OCELLUS_TRY(inflate_rows(bytes, size_bytes, facts, picture, filtered));
  const StoredPixels stored = place_stored_pixels(picture, facts.orientation, facts.width, facts.height);
  const int64_t pixel_bytes = png_row_bytes(facts, 1);  // at least 1: small samples are filtered bytewise
  for (int pass = 0; pass < pass_count(facts); ++pass) {
    const PngPass area = png_pass(facts, pass);
    const int64_t row_bytes = png_row_bytes(facts, area.width);
    const uint8_t* above = nullptr;
    for (int32_t y = 0; area.width > 0 && y < area.height; ++y) {
      uint8_t* row = filtered + 1;
      OCELLUS_TRY(unfilter_row(filtered[0], row, above, row_bytes, pixel_bytes));
      uint8_t* target =
          stored.first + (area.top + int64_t{y} * area.down) * stored.down_bytes + area.left * stored.across_bytes;
      expand_row(facts, row, area.width, target, area.across * stored.across_bytes);
      above = row;
      filtered = row + row_bytes;
    }
  }
  *out = seen_picture(picture, facts.orientation, facts.width, facts.height);
  return {};
}

}  // namespace ocellus

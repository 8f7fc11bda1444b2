#include <algorithm>
#include <cstdlib>
#include <cstring>

#define ZLIB_CONST
#include <zlib.h>

#include "kernels/vision/picture_math.h"
#include "mm/pictures/png_image.h"
#include "mm/pictures/png_passes.h"
#include "mm/pictures/scratch_layout.h"

namespace ocellus {

using picture::grey_of_16_bits;

namespace {

int paeth(int left, int above, int corner) {
  const int from_left = std::abs(above - corner), from_above = std::abs(left - corner);
  const int from_corner = std::abs(left + above - 2 * corner);
  if (from_left <= from_above && from_left <= from_corner) return left;
  return from_above <= from_corner ? above : corner;
}

/// Undoes the filter of one row in place. `above` is the previous row, already unfiltered; null for the first of a
/// pass, for which the row above counts as zero. `step` is the distance in bytes to the pixel on the left.
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

// Returns sample `index` of a row as stored: 1 to 16 bits.
int read_sample(const uint8_t* row, int64_t index, int bit_depth) {
  if (bit_depth == 8) return row[index];
  if (bit_depth == 16) return row[2 * index] << 8 | row[2 * index + 1];
  const int64_t bit = index * bit_depth;
  return row[bit / 8] >> (8 - bit_depth - bit % 8) & ((1 << bit_depth) - 1);
}

// Converts a grey or colour sample to 8 bits: small depths are spread over 0..255, 16 bits lose the lower eight.
int to_8_bits(int sample, int bit_depth) {
  if (bit_depth == 16) return sample >> 8;
  return sample * 255 / ((1 << bit_depth) - 1);
}

/// Converts one row of a pass to RGB, writing a pixel every `step` bytes.
void expand_row(const PngFacts& facts, const uint8_t* row, int32_t width, uint8_t* out, int64_t step) {
  const int depth = facts.bit_depth;
  const int channels = png_channels(facts.color);
  if (facts.color == PngColor::kRgb && depth == 8 && !facts.has_transparent_color && step == 3) {
    std::memcpy(out, row, static_cast<size_t>(width) * 3);
    return;
  }
  const bool is_gray = facts.color == PngColor::kGray || facts.color == PngColor::kGrayAlpha;
  const bool is_deep_grey = is_gray && depth == 16;
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
      rgb[c] = is_deep_grey ? grey_of_16_bits(sample, facts.depth) : to_8_bits(sample, depth);
    }
    const int alpha = has_alpha ? to_8_bits(read_sample(row, first + colors, depth), depth) : is_transparent ? 0 : 255;
    for (int c = 0; c < 3; ++c) out[c] = blend_on_white(rgb[is_gray ? 0 : c], alpha);
  }
}

/// The inflated bytes of all IDAT chunks, on demand. zlib runs without header and checksum: the header is read here,
/// the checksum is ignored.
class PixelStream {
 public:
  PixelStream(const uint8_t* bytes, int64_t size_bytes, Extent memory) : chunks_(bytes, size_bytes), memory_(memory) {}
  ~PixelStream() { inflateEnd(&stream_); }
  PixelStream(const PixelStream&) = delete;
  PixelStream& operator=(const PixelStream&) = delete;

  Status open() {
    stream_.opaque = this;
    stream_.zalloc = [](void* self, uInt items, uInt size) {
      return static_cast<PixelStream*>(self)->take(items, size);
    };
    stream_.zfree = [](void*, void*) {};
    if (inflateInit2(&stream_, -MAX_WBITS) != Z_OK)
      return OCELLUS_FAIL(Code::kFull, "inflating a PNG takes more than the %lld bytes of scratch that are left",
                          static_cast<long long>(memory_.bytes));
    uint8_t header[2] = {};
    for (uint8_t& byte : header) {
      OCELLUS_TRY(refill());
      byte = *stream_.next_in++;
      --stream_.avail_in;
    }
    const bool sound =
        (header[0] << 8 | header[1]) % 31 == 0 && (header[0] & 15) == 8 && header[0] >> 4 <= 7 && (header[1] & 32) == 0;
    return sound ? Status() : damaged();
  }

  Status read(uint8_t* out, int64_t count) {
    stream_.next_out = out;
    stream_.avail_out = static_cast<uInt>(count);
    while (stream_.avail_out > 0) {
      OCELLUS_TRY(refill());
      if (ended_) return damaged();
      OCELLUS_TRY(run());
    }
    return {};
  }

  /// Checks that there are no more data.
  Status end() {
    uint8_t more = 0;
    stream_.next_out = &more;
    stream_.avail_out = 1;
    while (!ended_) {
      OCELLUS_TRY(refill());
      OCELLUS_TRY(run());
      if (stream_.avail_out == 0) return damaged();
    }
    return {};
  }

 private:
  static Status damaged() {
    return OCELLUS_FAIL(Code::kBadImage,
                        "the PNG's pixel data does not inflate to the pixels of its header: it is damaged");
  }
  void* take(uInt items, uInt size) {
    const int64_t bytes = (int64_t{items} * size + 15) / 16 * 16;
    if (bytes > memory_.bytes) return nullptr;
    std::byte* const block = memory_.data;
    std::memset(block, 0, static_cast<size_t>(bytes));
    memory_ = {block + bytes, memory_.bytes - bytes};
    return block;
  }
  /// Provides input from the next chunk that has some.
  Status refill() {
    while (stream_.avail_in == 0) {
      PngChunk chunk;
      OCELLUS_TRY(chunks_.next(&chunk));
      if (chunk.is("IEND")) return damaged();
      if (!chunk.is("IDAT")) continue;
      stream_.next_in = chunk.data;
      stream_.avail_in = static_cast<uInt>(chunk.bytes);
    }
    return {};
  }
  Status run() {
    const int result = inflate(&stream_, Z_SYNC_FLUSH);
    ended_ = result == Z_STREAM_END;
    return ended_ || result == Z_OK || result == Z_BUF_ERROR ? Status() : damaged();
  }

  PngChunks chunks_;
  Extent memory_;
  z_stream stream_ = {};
  bool ended_ = false;
};

/// Reads and unfilters the rows of one pass.
class PassRows {
 public:
  PassRows(const PngFacts& facts, uint8_t* const (&memory)[2]) : facts_(facts), rows_{memory[0], memory[1]} {}
  void begin(int32_t width) {
    bytes_ = png_row_bytes(facts_, width);
    above_ = nullptr;
  }
  /// Returns the next row without its filter byte; valid until the one after the next.
  Status next(PixelStream& stream, const uint8_t** out) {
    uint8_t* const row = rows_[turn_];
    turn_ = 1 - turn_;
    OCELLUS_TRY(stream.read(row, bytes_ + 1));
    OCELLUS_TRY(unfilter_row(row[0], row + 1, above_, bytes_, png_row_bytes(facts_, 1)));
    above_ = *out = row + 1;
    return {};
  }

 private:
  const PngFacts& facts_;
  uint8_t* rows_[2];
  int turn_ = 0;
  int64_t bytes_ = 0;
  const uint8_t* above_ = nullptr;
};

/// Scratch of decoding: two filtered rows, a row or, if interlaced, the picture of RGB8, and zlib's window and state.
struct PngScratch {
  static constexpr int64_t kInflateBytes = 96 << 10;  // zlib uses 40 KiB, compatible libraries up to twice that
  uint8_t* rows[2];
  uint8_t* picture;
  std::byte* inflating;
  int64_t bytes;

  PngScratch(const PngFacts& facts, std::byte* memory) {
    ScratchLayout layout(memory);
    for (uint8_t*& row : rows) layout.take(1 + png_row_bytes(facts, facts.width), &row);
    layout.take(int64_t{3} * facts.width * (facts.interlaced ? facts.height : 1), &picture);
    layout.take(kInflateBytes, &inflating);
    bytes = layout.bytes();
  }
};

}  // namespace

int64_t png_rows_scratch_bytes(const PngFacts& facts) {
  return PngScratch(facts, nullptr).bytes + ScratchLayout::kAlignment;
}

int64_t png_rows_scratch_bound(int64_t side) {
  constexpr int64_t kMaxPixelBytes = 8;  // 16 bits, four channels
  return 2 * (kMaxPixelBytes * side + 32) + 3 * side + 64 + PngScratch::kInflateBytes;
}

Status decode_png_rows(const uint8_t* bytes, int64_t size_bytes, const PngFacts& facts, Extent scratch,
                       RowConsumer& rows) {
  const PngScratch memory(facts, ScratchLayout::align(scratch.data));
  PixelStream stream(bytes, size_bytes, {memory.inflating, PngScratch::kInflateBytes});
  PassRows filtered(facts, memory.rows);
  OCELLUS_TRY(stream.open());
  const int64_t stride = int64_t{3} * facts.width;
  for (int pass = 0; pass < pass_count(facts); ++pass) {
    const PngPass area = png_pass(facts, pass);
    filtered.begin(area.width);
    for (int32_t y = 0; area.width > 0 && y < area.height; ++y) {
      const uint8_t* row = nullptr;
      OCELLUS_TRY(filtered.next(stream, &row));
      const int64_t line = facts.interlaced ? area.top + int64_t{y} * area.down : 0;
      uint8_t* const target = memory.picture + line * stride + int64_t{3} * area.left;
      expand_row(facts, row, area.width, target, int64_t{3} * area.across);
      if (!facts.interlaced) rows.take(target);
    }
  }
  OCELLUS_TRY(stream.end());
  if (facts.interlaced) feed_rows({memory.picture, facts.width, facts.height, stride}, rows);
  return {};
}

}  // namespace ocellus

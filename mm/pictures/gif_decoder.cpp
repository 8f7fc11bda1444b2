#include "mm/pictures/gif_decoder.h"

#include <algorithm>
#include <cstring>

#include "mm/pictures/scratch_layout.h"
#include "platform/round_up.h"

namespace ocellus {
namespace {

constexpr int32_t kMaxCodes = 4096;
constexpr uint8_t kWhite = 255;

/// Reads codes of some bits out of a frame's blocks, of which GifFrames has checked the lengths.
class CodeReader {
 public:
  explicit CodeReader(const uint8_t* data) : at_(data) {}

  /// Returns -1 after the last block.
  int32_t next(int bits) {
    while (held_ < bits) {
      if (left_ == 0) {
        if (*at_ == 0) return -1;
        left_ = *at_++;
      }
      bits_ |= uint32_t{*at_++} << held_;
      held_ += 8;
      --left_;
    }
    const auto code = static_cast<int32_t>(bits_ & ((1u << bits) - 1));
    bits_ >>= bits;
    held_ -= bits;
    return code;
  }

 private:
  const uint8_t* at_;
  int32_t left_ = 0;  // bytes of the block
  uint32_t bits_ = 0;
  int held_ = 0;
};

/// Every code's pixels are those of another one and one more.
struct Codes {
  uint16_t before[kMaxCodes];
  uint8_t last[kMaxCodes];
  uint8_t reversed[kMaxCodes];  // pixels of the newest code, last first
};

struct Scratch {
  Codes* codes = nullptr;
  uint8_t* row = nullptr;  // a row's indices
  int64_t bytes = 0;

  Scratch(std::byte* memory, int32_t width) {
    ScratchLayout layout(memory);
    layout.take(1, &codes);
    layout.take(width, &row);
    bytes = layout.bytes() + ScratchLayout::kAlignment;
  }
};

/// Rows of an interlaced frame come in four passes.
class RowOrder {
 public:
  explicit RowOrder(const GifFrame& frame) : height_(frame.height), step_(frame.interlaced ? 8 : 1) {}
  int32_t row() const { return row_; }
  void advance() {
    row_ += step_;
    while (row_ >= height_ && step_ > 1 && first_ != 1) {
      first_ = first_ == 0 ? 4 : first_ / 2;
      step_ = 2 * first_;
      row_ = first_;
    }
  }

 private:
  int32_t height_, step_, row_ = 0, first_ = 0;
};

Status damaged_codes() { return OCELLUS_FAIL(Code::kBadImage, "the GIF has a code that none before it defines"); }

/// Unpacks a frame's codes; take(y, indices) gets its rows in the order of the file. The work grows with the pixels,
/// not with what the codes could stand for.
template <class Take>
Status unpack(const GifFrame& frame, Scratch& scratch, Take take) {
  Codes& codes = *scratch.codes;
  CodeReader reader(frame.data);
  const int32_t clear = 1 << frame.code_bits, end = clear + 1;
  int32_t next = end + 1, before = -1, x = 0;
  int bits = frame.code_bits + 1;
  RowOrder order(frame);
  for (int32_t rows = 0; rows < frame.height;) {
    const int32_t code = reader.next(bits);
    if (code < 0 || code == end) return OCELLUS_FAIL(Code::kBadImage, "the GIF's codes end before its picture");
    if (code == clear) {
      next = end + 1;
      bits = frame.code_bits + 1;
      before = -1;
      continue;
    }
    if (code > next || (code == next && (before < 0 || next == kMaxCodes)) || (before < 0 && code > clear))
      return damaged_codes();
    // A code that is just being defined is the one before it with its own first pixel after it.
    int32_t count = 0, part = code;
    if (code == next) {
      codes.reversed[count++] = 0;
      part = before;
    }
    for (; part > end; part = codes.before[part]) codes.reversed[count++] = codes.last[part];
    const auto first = static_cast<uint8_t>(part);
    codes.reversed[count++] = first;
    if (code == next) codes.reversed[0] = first;
    if (before >= 0 && next < kMaxCodes) {
      codes.before[next] = static_cast<uint16_t>(before);
      codes.last[next] = first;
      if (++next == 1 << bits && bits < 12) ++bits;
    }
    before = code;
    while (count > 0 && rows < frame.height) {
      scratch.row[x++] = codes.reversed[--count];
      if (x < frame.width) continue;
      take(order.row(), scratch.row);
      order.advance();
      x = 0;
      ++rows;
    }
  }
  return {};
}

/// Draws a row of indices; colours that the palette lacks are black.
void draw_row(const GifFrame& frame, const uint8_t* indices, uint8_t* rgb) {
  for (int32_t x = 0; x < frame.width; ++x, rgb += 3) {
    const int32_t index = indices[x];
    if (index == frame.transparent) continue;
    if (index < frame.color_count) {
      std::memcpy(rgb, frame.palette + 3 * index, 3);
    } else {
      std::memset(rgb, 0, 3);
    }
  }
}

Status check_scratch(int64_t needed_bytes, Extent scratch) {
  if (scratch.bytes >= needed_bytes) return {};
  return OCELLUS_FAIL(Code::kFull, "a GIF takes %lld bytes of scratch, but %lld were given",
                      static_cast<long long>(needed_bytes), static_cast<long long>(scratch.bytes));
}

int64_t frame_scratch_bytes(int32_t width) { return Scratch(nullptr, width).bytes; }

/// Draws a frame over the screen, transparent pixels left out.
Status draw_frame(const GifFrame& frame, int32_t screen_width, Extent scratch, uint8_t* screen) {
  OCELLUS_TRY(check_scratch(frame_scratch_bytes(frame.width), scratch));
  Scratch pieces(ScratchLayout::align(scratch.data), frame.width);
  return unpack(frame, pieces, [&](int32_t y, const uint8_t* indices) {
    draw_row(frame, indices, screen + 3 * (int64_t{frame.top + y} * screen_width + frame.left));
  });
}

/// Takes away what a frame has drawn, as it asks for. `kept` is the screen before it.
void dispose(const GifFrame& frame, const RgbImage& screen, uint8_t* pixels, const uint8_t* kept) {
  for (int32_t y = frame.top; y < frame.top + frame.height; ++y) {
    const int64_t at = y * screen.stride_bytes + int64_t{3} * frame.left;
    const size_t bytes = size_t{3} * static_cast<size_t>(frame.width);
    if (frame.disposal == GifDisposal::kCleared) std::memset(pixels + at, kWhite, bytes);
    if (frame.disposal == GifDisposal::kUndone) std::memcpy(pixels + at, kept + at, bytes);
  }
}

}  // namespace

int64_t gif_animation_bytes(int32_t width, int32_t height) {
  return 2 * round_up(int64_t{3} * width * height, ScratchLayout::kAlignment) + frame_scratch_bytes(width);
}

Status next_gif_frame(const uint8_t* bytes, int64_t size_bytes, int64_t* place, Extent memory, RgbImage* out) {
  GifFrames frames(bytes, size_bytes);
  RgbImage screen;
  OCELLUS_TRY(frames.read_screen(&screen.width, &screen.height));
  screen.stride_bytes = int64_t{3} * screen.width;
  OCELLUS_TRY(check_scratch(gif_animation_bytes(screen.width, screen.height), memory));
  auto* const pixels = reinterpret_cast<uint8_t*>(memory.data);
  screen.pixels = pixels;
  const int64_t screen_bytes = round_up(screen.stride_bytes * screen.height, ScratchLayout::kAlignment);
  uint8_t* const kept = pixels + screen_bytes;
  if (*place < 0 || *place >= size_bytes)
    return OCELLUS_FAIL(Code::kBadArgument, "the place %lld is in no frame of the GIF", static_cast<long long>(*place));
  GifFrame frame;
  bool found = false;
  if (*place == 0) {
    std::memset(pixels, kWhite, static_cast<size_t>(screen_bytes));
  } else {
    frames.go_to(*place);
    OCELLUS_TRY(frames.next(&frame, &found));
    if (found) dispose(frame, screen, pixels, kept);
  }
  const int64_t begin = frames.place();
  OCELLUS_TRY(frames.next(&frame, &found));
  *place = found ? begin : -1;
  if (!found) return {};
  if (frame.disposal == GifDisposal::kUndone) std::memcpy(kept, pixels, static_cast<size_t>(screen_bytes));
  *out = screen;
  return draw_frame(frame, screen.width, {memory.data + 2 * screen_bytes, memory.bytes - 2 * screen_bytes}, pixels);
}

int64_t gif_rows_scratch_bytes(const GifFacts& facts) {
  const int64_t row_bytes = int64_t{3} * facts.width;
  const int64_t held = facts.first.interlaced ? row_bytes * facts.height : row_bytes;
  return round_up(held, ScratchLayout::kAlignment) + frame_scratch_bytes(facts.first.width);
}

int64_t gif_rows_scratch_bound(int64_t side) {
  const auto width = static_cast<int32_t>(side);
  return round_up(3 * side, ScratchLayout::kAlignment) + frame_scratch_bytes(width);
}

Status decode_gif_rows(const GifFacts& facts, Extent scratch, RowConsumer& rows) {
  OCELLUS_TRY(check_scratch(gif_rows_scratch_bytes(facts), scratch));
  const GifFrame& frame = facts.first;
  const int64_t row_bytes = int64_t{3} * facts.width;
  auto* const held = reinterpret_cast<uint8_t*>(scratch.data);
  const int64_t held_bytes =
      round_up(frame.interlaced ? row_bytes * facts.height : row_bytes, ScratchLayout::kAlignment);
  const Extent rest{scratch.data + held_bytes, scratch.bytes - held_bytes};
  if (frame.interlaced) {
    std::memset(held, kWhite, static_cast<size_t>(row_bytes * facts.height));
    OCELLUS_TRY(draw_frame(frame, facts.width, rest, held));
    feed_rows({held, facts.width, facts.height, row_bytes}, rows);
    return {};
  }
  const auto give = [&](const uint8_t* indices) {
    std::memset(held, kWhite, static_cast<size_t>(row_bytes));
    if (indices != nullptr) draw_row(frame, indices, held + int64_t{3} * frame.left);
    rows.take(held);
  };
  for (int32_t y = 0; y < frame.top; ++y) give(nullptr);
  Scratch pieces(ScratchLayout::align(rest.data), frame.width);
  OCELLUS_TRY(unpack(frame, pieces, [&](int32_t, const uint8_t* indices) { give(indices); }));
  for (int32_t y = frame.top + frame.height; y < facts.height; ++y) give(nullptr);
  return {};
}

}  // namespace ocellus

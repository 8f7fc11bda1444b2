#include "mm/pictures/gif_header.h"

#include <cstring>

namespace ocellus {
namespace {

constexpr int64_t kScreenBytes = 13;  // signature and screen descriptor
constexpr int kExtension = 0x21, kImage = 0x2C, kTrailer = 0x3B, kControl = 0xF9;

int32_t read_le16(const uint8_t* at) { return at[0] | at[1] << 8; }

/// Colours of a palette by the flags before it; 0 if there is none.
int32_t palette_colors(int flags) { return (flags & 0x80) != 0 ? 2 << (flags & 7) : 0; }

Status truncated() { return OCELLUS_FAIL(Code::kBadImage, "the GIF ends inside a frame: the file is truncated"); }

}  // namespace

bool is_gif(const uint8_t* bytes, int64_t size_bytes) {
  return size_bytes >= 6 && (std::memcmp(bytes, "GIF87a", 6) == 0 || std::memcmp(bytes, "GIF89a", 6) == 0);
}

Status GifFrames::read_screen(int32_t* width, int32_t* height) {
  if (end_ - cursor_ < kScreenBytes) return truncated();
  width_ = *width = read_le16(cursor_ + 6);
  height_ = *height = read_le16(cursor_ + 8);
  color_count_ = palette_colors(cursor_[10]);
  cursor_ += kScreenBytes;
  if (end_ - cursor_ < int64_t{3} * color_count_) return truncated();
  palette_ = cursor_;
  cursor_ += int64_t{3} * color_count_;
  return {};
}

Status GifFrames::next(GifFrame* frame, bool* found) {
  *frame = GifFrame();
  *found = false;
  while (cursor_ < end_) {
    const int kind = *cursor_++;
    if (kind == kTrailer) {
      cursor_ = end_;
    } else if (kind == kExtension) {
      OCELLUS_TRY(read_extension(frame));
    } else if (kind == kImage) {
      *found = true;
      return read_frame(frame);
    } else {
      return OCELLUS_FAIL(Code::kBadImage, "the GIF has a block %02X where a frame should start: it is damaged",
                          static_cast<unsigned>(kind));
    }
  }
  return {};
}

/// Keeps what a graphic control says of the frame after it; skips others.
Status GifFrames::read_extension(GifFrame* frame) {
  if (end_ - cursor_ < 2) return truncated();
  const uint8_t* const block = cursor_ + 1;
  if (*cursor_++ == kControl && block[0] == 4 && end_ - block >= 5) {
    constexpr GifDisposal kDisposals[] = {GifDisposal::kStays, GifDisposal::kStays, GifDisposal::kCleared,
                                          GifDisposal::kUndone};
    const int disposal = block[1] >> 2 & 7;
    frame->disposal = disposal < 4 ? kDisposals[disposal] : GifDisposal::kStays;
    frame->hundredths = read_le16(block + 2);
    frame->transparent = (block[1] & 1) != 0 ? block[4] : -1;
  }
  return skip_blocks();
}

Status GifFrames::read_frame(GifFrame* frame) {
  if (end_ - cursor_ < 9) return truncated();
  frame->left = read_le16(cursor_);
  frame->top = read_le16(cursor_ + 2);
  frame->width = read_le16(cursor_ + 4);
  frame->height = read_le16(cursor_ + 6);
  const int flags = cursor_[8];
  cursor_ += 9;
  if (frame->width < 1 || frame->height < 1 || frame->left + frame->width > width_ ||
      frame->top + frame->height > height_) {
    return OCELLUS_FAIL(Code::kBadImage, "the GIF has a frame of %d x %d pixels outside its %d x %d: it is damaged",
                        frame->width, frame->height, width_, height_);
  }
  frame->interlaced = (flags & 0x40) != 0;
  const int32_t own_colors = palette_colors(flags);
  frame->palette = own_colors > 0 ? cursor_ : palette_;
  frame->color_count = own_colors > 0 ? own_colors : color_count_;
  if (frame->color_count == 0) return OCELLUS_FAIL(Code::kBadImage, "the GIF has a frame without a palette");
  if (end_ - cursor_ < int64_t{3} * own_colors + 1) return truncated();
  cursor_ += int64_t{3} * own_colors;
  frame->code_bits = *cursor_++;
  if (frame->code_bits < 1 || frame->code_bits > 8)
    return OCELLUS_FAIL(Code::kBadImage, "the GIF has codes of %d bits: it is damaged", frame->code_bits);
  frame->data = cursor_;
  return skip_blocks();
}

/// Passes blocks, each with its length before it, up to an empty one.
Status GifFrames::skip_blocks() {
  for (;;) {
    if (cursor_ >= end_) return truncated();
    const int64_t length = *cursor_++;
    if (length == 0) return {};
    if (end_ - cursor_ < length) return truncated();
    cursor_ += length;
  }
}

Status read_gif_header(const uint8_t* bytes, int64_t size_bytes, const ImageLimits& limits, GifFacts* facts) {
  *facts = GifFacts();
  GifFrames frames(bytes, size_bytes);
  OCELLUS_TRY(frames.read_screen(&facts->width, &facts->height));
  OCELLUS_TRY(check_image_size(limits, "GIF", facts->width, facts->height));
  for (;;) {
    GifFrame frame;
    bool found = false;
    OCELLUS_TRY(frames.next(&frame, &found));
    if (!found) break;
    if (facts->frame_count++ == 0) facts->first = frame;
    facts->hundredths += frame.hundredths;
  }
  if (facts->frame_count == 0) return OCELLUS_FAIL(Code::kBadImage, "the GIF has no frame");
  return {};
}

}  // namespace ocellus

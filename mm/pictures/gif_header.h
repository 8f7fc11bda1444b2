// Validation of a GIF file's structure, and its frames one after another.
//
// A GIF is a screen, of which every frame redraws a part, in a palette of its own or the file's.
#pragma once

#include <cstdint>

#include "mm/pictures/rgb_image.h"
#include "platform/status.h"

namespace ocellus {

/// Ways to take a frame away before the next one is drawn.
enum class GifDisposal : uint8_t { kStays, kCleared, kUndone };

/// One frame; pointers are into the file.
struct GifFrame {
  int32_t left = 0, top = 0;  // place on the screen, which it never leaves
  int32_t width = 0, height = 0;
  bool interlaced = false;
  GifDisposal disposal = GifDisposal::kStays;
  int32_t transparent = -1;  // index of a colour that is not drawn; -1: none
  int32_t hundredths = 0;    // time that it is shown, in 1/100 s
  const uint8_t* palette = nullptr;
  int32_t color_count = 0;        // colours of 3 bytes in the palette
  int32_t code_bits = 0;          // bits of a pixel's code, 1..8
  const uint8_t* data = nullptr;  // first block of its codes
};

struct GifFacts {
  int32_t width = 0;  // size of the screen
  int32_t height = 0;
  int32_t frame_count = 0;
  int64_t hundredths = 0;  // sum over the frames
  GifFrame first;
};

/// Walks the blocks of a file.
class GifFrames {
 public:
  GifFrames(const uint8_t* bytes, int64_t size_bytes) : begin_(bytes), cursor_(bytes), end_(bytes + size_bytes) {}

  /// Reads the screen's size. kBadImage if the file has none.
  Status read_screen(int32_t* width, int32_t* height);
  /// Reads the next frame's header and passes its data. *found is false after the last one. kBadImage if the file is
  /// damaged or ends inside a block; without a trailer it may end.
  Status next(GifFrame* frame, bool* found);

  /// The place of the next block in the file, and a place that was one.
  int64_t place() const { return cursor_ - begin_; }
  void go_to(int64_t place) { cursor_ = begin_ + place; }

 private:
  Status read_extension(GifFrame* frame);
  Status read_frame(GifFrame* frame);
  Status skip_blocks();

  const uint8_t* begin_;
  const uint8_t* cursor_;
  const uint8_t* end_;
  int32_t width_ = 0, height_ = 0;
  const uint8_t* palette_ = nullptr;
  int32_t color_count_ = 0;
};

/// True if the bytes begin like a GIF.
bool is_gif(const uint8_t* bytes, int64_t size_bytes);

/// Walks all frames. kBadImage if the file is damaged, truncated or outside the limits.
Status read_gif_header(const uint8_t* bytes, int64_t size_bytes, const ImageLimits& limits, GifFacts* facts);

}  // namespace ocellus

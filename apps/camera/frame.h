// One picture of a camera as its source delivered it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/camera/depth_range.h"
#include "runtime/ocellus.h"

namespace ocellus::app {

enum class FrameKind {
  kEncoded,  // a picture file
  kPixels,   // raw, in one of ocellus_pixel_format, rows without padding
};

// Frames are passed on by swapping, so that their memory is reused.
struct Frame {
  FrameKind kind = FrameKind::kEncoded;
  int32_t pixel_format = OCELLUS_RGB8;  // raw frames only
  int32_t width = 0;                    // pixels; for encoded frames from their headers
  int32_t height = 0;
  int64_t whole_pixels = 0;              // encoded frames: see ocellus_image_facts
  bool full_range = false;               // formats with chroma: luma uses 0..255
  int32_t color_matrix = OCELLUS_BT601;  // formats with chroma
  DepthRange depth = {};                 // grey of 16 bits, raw or encoded
  int64_t sequence = 0;                  // number of the frame in the source, from 1
  int64_t captured_ns = 0;               // CLOCK_MONOTONIC
  int64_t wall_ms = 0;                   // in ms since 1970, by sources with a clock of their own; 0: see captured_ns
  int64_t file_ns = 0;                   // files and directories: place in the video by its rate; 0: other sources
  std::vector<uint8_t> bytes;
  std::string truth;  // synthetic scenes: their caption in the words that the bundled model was trained on

  // Time among the frames of its source, for clips: a video's own, however fast it is read, else the capture's.
  int64_t time_ns() const { return file_ns > 0 ? file_ns : captured_ns; }
  // Returns a raw frame as the library takes it; valid as long as `bytes` is.
  ocellus_frame view() const;
};

// True if pixels are luma and chroma, not RGB or grey.
bool has_chroma(int32_t pixel_format);

// Bytes of a raw frame; 0 for a size that the format does not allow.
int64_t pixel_bytes(int32_t pixel_format, int32_t width, int32_t height);

}  // namespace ocellus::app

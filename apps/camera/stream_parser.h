// Frames out of the bytes of a pipe or file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "apps/camera/frame_source.h"

namespace ocellus::app {

class StreamParser {
 public:
  virtual ~StreamParser() = default;
  // Takes bytes, as many as it needs now: at least one after next() said kTimeout.
  virtual size_t take(const uint8_t* bytes, size_t count) = 0;
  // What has come: kFrame, kBroken, kLost if the stream cannot be read any further, kTimeout if more bytes are needed.
  virtual SourceEvent next(Frame* frame) = 0;
  // At the stream's end, which is the next one's beginning if it is read again: whether a frame had begun.
  virtual bool finish() = 0;
  // "1280 x 720 nv12"
  virtual std::string describe() const = 0;
  // As the stream says; 0 if it does not.
  virtual double frames_per_second() const { return 0; }
  // Whether describe() and frames_per_second() are known.
  virtual bool is_ready() const { return true; }
};

// JPEG files one after another.
std::unique_ptr<StreamParser> make_mjpeg_parser();

// Frames of one size and format (kRawFormats) one after another. Throws a Failure for others, and for sizes that the
// format does not allow.
std::unique_ptr<StreamParser> make_raw_parser(const std::string& format, int32_t width, int32_t height,
                                              const FrameColor& color);

// YUV4MPEG2 with 8 bits: 4:2:0 as I420, 4:2:2 as YUYV, without the last column of an odd width, 4:4:4 as RGB and grey.
// The header names the range; what `color` says comes before it. Interlaced video and other kinds are refused.
std::unique_ptr<StreamParser> make_y4m_parser(const FrameColor& color);

}  // namespace ocellus::app

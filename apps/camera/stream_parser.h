// StreamParser: finds frames in the bytes of a pipe or file.
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
  // Takes as many of the bytes as it needs now: at least one after next() returned kTimeout.
  virtual size_t take(const uint8_t* bytes, size_t count) = 0;
  // Returns kFrame, kBroken, kLost if the stream cannot be read any further, or kTimeout if more bytes are needed.
  virtual SourceEvent next(Frame* frame) = 0;
  // Ends the stream, which may then start again; returns true if an incomplete frame was dropped.
  virtual bool finish() = 0;
  // "1280 x 720 nv12"
  virtual std::string describe() const = 0;
  // Rate stated by the stream; 0 if there is none.
  virtual double frames_per_second() const { return 0; }
  // True if describe() and frames_per_second() are known.
  virtual bool is_ready() const { return true; }
};

// Parses concatenated JPEG files.
std::unique_ptr<StreamParser> make_mjpeg_parser();

// Parses concatenated frames of one size and format (kRawFormats). Throws a Failure for other formats, and for sizes
// that the format does not allow.
std::unique_ptr<StreamParser> make_raw_parser(const std::string& format, int32_t width, int32_t height,
                                              const FrameColor& color);

// Parses YUV4MPEG2 with 8 bits: 4:2:0 as I420, 4:2:2 as YUYV, without the last column of an odd width, 4:4:4 as RGB,
// and grey. `color` overrides the range in the header. Interlaced video and other kinds are refused.
std::unique_ptr<StreamParser> make_y4m_parser(const FrameColor& color);

}  // namespace ocellus::app

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
  // Tells that no bytes follow, or none for now: a frame that waits for the next one to show its layout may be complete
  // as it is. Returns true if next() has it.
  virtual bool pause() { return false; }
  // Ends the stream, which may then start again; returns true if an incomplete frame was dropped.
  virtual bool finish() = 0;
  // "1280 x 720 nv12"
  virtual std::string describe() const = 0;
  // Rate stated by the stream; 0 if there is none.
  virtual double frames_per_second() const { return 0; }
  // True if describe() and frames_per_second() are known.
  virtual bool is_ready() const { return true; }
};

// Parses concatenated JPEG files, whatever stands between them.
std::unique_ptr<StreamParser> make_mjpeg_parser();

// Parses concatenated frames of one size and format (kRawFormats), of which `stride` says where rows lie. Throws a
// Failure for other formats, and for sizes and strides that the format does not allow.
std::unique_ptr<StreamParser> make_raw_parser(const SourceOptions& options);
// Returns a sentence about a file of raw frames whose size shows that its rows are padded; empty if it does not.
std::string check_raw_file(const SourceOptions& options, int64_t file_bytes);

// Parses YUV4MPEG2 with 8 bits: 4:2:0, 4:2:2, 4:4:4 and grey. Rows have no padding by the format, but GStreamer's have:
// where the next frame begins tells. So at widths that GStreamer pads, the first frame comes with the beginning of the
// second, with the end of the stream, or when no bytes follow for a while. `color` overrides what the header says.
// Interlaced video and other kinds are refused.
std::unique_ptr<StreamParser> make_y4m_parser(const FrameColor& color);

}  // namespace ocellus::app

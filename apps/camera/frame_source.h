// Where frames come from: a camera, a directory, a file, a pipe, a browser or a scene that is made up.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "apps/camera/frame.h"

namespace ocellus::app {

struct SourceEvent {
  enum Kind {
    kFrame,    // *frame is the next one
    kTimeout,  // none came in time; the source goes on
    kBroken,   // one came that cannot be used; the source goes on
    kLost,     // the source is gone and has to be opened again
    kEnd,      // it has no more frames
  };
  Kind kind = kTimeout;
  std::string what = {};  // one sentence for kBroken and kLost; for kFrame, if not empty, what is new (another size)
  int64_t skipped = 0;    // frames before this one that the source itself could not keep (gaps of the driver's count)
};

// One thread at a time.
class FrameSource {
 public:
  virtual ~FrameSource() = default;
  // Waits at most `wait` for the next frame, whose memory is used again.
  virtual SourceEvent next(Frame* frame, std::chrono::milliseconds wait) = 0;
  // "1280 x 720 MJPEG, 30 frames a second"
  virtual std::string describe() const = 0;
  // Whether a lost source may come back (a camera), or not (a pipe).
  virtual bool can_reopen() const { return false; }
  // Opens a lost source again; throws a Failure as long as it is away.
  virtual void reopen() {}
  // How often frames should come, so that slow sources are not taken for stalled ones; 0: not known.
  virtual double frames_per_second() const { return 0; }
};

class FrameInbox;

struct SourceOptions {
  std::string name = {};  // /dev/videoN, a directory, a file, "-", "browser" or "synthetic"
  // Of raw frames on a pipe or in a file one of kRawFormats, "mjpeg" or "y4m"; empty: MJPEG or Y4M by their first
  // bytes. What to ask a camera for: one of kRawFormats but "rgba", or "mjpeg".
  std::string format = {};
  // What luma and chroma mean: "bt601", "bt709", or these with "-full", where luma uses 0..255. Empty: what a camera's
  // driver or a Y4M header says, else BT.601 of 16..235.
  std::string color = {};
  int32_t width = 0;  // of raw frames; of a camera and the synthetic scene what to ask for; 0: their own
  int32_t height = 0;
  double frames_per_second = 0;  // what to ask a camera for; the pace of directories, files and the synthetic scene; 0:
                                 // the source's own, a directory's and the synthetic scene's is 1 and 30
  bool loop = false;             // directories and files start again at their end
  std::string faults = {};       // of the synthetic scene, for tests: see synthetic_source.h
  uint64_t seed = 0;             // of the synthetic scene
  std::shared_ptr<FrameInbox> inbox = {};             // of "browser": where its frames come in
  int64_t most_posted_pixels = int64_t{1920} * 1080;  // of these; larger ones are broken
};

// The names are ffmpeg's; the second is what others say.
struct RawFormat {
  const char* name;
  const char* alias;
  ocellus_pixel_format format;
};
inline constexpr RawFormat kRawFormats[] = {{"nv12", "nv12", OCELLUS_NV12},    {"yuv420p", "i420", OCELLUS_I420},
                                            {"yuyv422", "yuyv", OCELLUS_YUYV}, {"rgb24", "rgb", OCELLUS_RGB8},
                                            {"bgr24", "bgr", OCELLUS_BGR8},    {"rgba", "rgba", OCELLUS_RGBA8},
                                            {"bgra", "bgra", OCELLUS_BGRA8},   {"gray", "gray8", OCELLUS_GRAY8}};
// Null if there is none of this name.
const RawFormat* find_raw_format(const std::string& name);
// "nv12, yuv420p, ..."
std::string raw_format_names();

// What is known of the colours of raw frames.
struct FrameColor {
  std::optional<int32_t> matrix = {};  // ocellus_color_matrix
  std::optional<bool> full_range = {};
  // Fills in what is not known here.
  FrameColor or_else(const FrameColor& other) const;
  void apply(Frame* frame) const;
};
// SourceOptions::color. Throws a Failure for others.
FrameColor parse_color(const std::string& text);

// Throws a Failure that says what is wrong with the source.
std::unique_ptr<FrameSource> open_source(const SourceOptions& options);

}  // namespace ocellus::app

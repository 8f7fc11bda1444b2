// FrameSource: frames of a camera, a directory, a file, a pipe, a browser or the synthetic scene.
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
    kTimeout,  // none came in time; the source continues
    kBroken,   // an unusable frame came; the source continues
    kLost,     // the source was lost and has to be opened again
    kEnd,      // no more frames
  };
  Kind kind = kTimeout;
  std::string what = {};  // one sentence for kBroken and kLost; for kFrame a change (another size), or empty
  int64_t skipped = 0;    // frames before this one that the source could not keep (gaps in the driver's count)
};

// Not thread-safe.
class FrameSource {
 public:
  virtual ~FrameSource() = default;
  // Waits at most `wait` for the next frame and reuses the memory of *frame.
  virtual SourceEvent next(Frame* frame, std::chrono::milliseconds wait) = 0;
  // "1280 x 720 MJPEG, 30 frames a second"
  virtual std::string describe() const = 0;
  // True if a lost source may come back (a camera, not a pipe).
  virtual bool can_reopen() const { return false; }
  // Opens a lost source again; throws a Failure while it is unavailable.
  virtual void reopen() {}
  // Expected rate, so that slow sources do not count as stalled; 0: unknown.
  virtual double frames_per_second() const { return 0; }
};

class FrameInbox;

struct SourceOptions {
  std::string name = {};  // /dev/videoN, a directory, a file, "-", "browser" or "synthetic"
  // Raw frames on a pipe or in a file: one of kRawFormats, "mjpeg" or "y4m"; empty: MJPEG or Y4M by their first bytes.
  // Cameras: the format to request, one of kRawFormats except "rgba", or "mjpeg".
  std::string format = {};
  // Color space of luma and chroma: "bt601", "bt709", or these with "-full" for luma of 0..255. Empty or "auto": as
  // stated by the driver or the Y4M header, else as the program does that wrote the frames, where that is known (see
  // gstreamer_color), else BT.601 of 16..235.
  std::string color = {};
  std::string stride = {};  // raw frames on a pipe or in a file: see parse_stride
  DepthRange depth = {};    // frames of 16 bits, of whatever source
  int32_t width = 0;  // size of raw frames; size to request of a camera and the synthetic scene; 0: the source's own
  int32_t height = 0;
  double frames_per_second = 0;  // rate to request of a camera; pace of directories, files and the synthetic scene; 0:
                                 // the source's own (directory 1, synthetic scene 30, its day 0.1)
  bool paced = true;             // false: frames of directories and files come as fast as they are read
  bool loop = false;             // directories and files start again at their end
  std::string faults = {};       // synthetic scene, for tests: see synthetic_source.h
  uint64_t seed = 0;             // synthetic scene
  std::string scene = {};        // synthetic scene: "shapes", as does the empty text, or "day"
  double speed = 1;              // "day": its seconds that pass in a second; 0: frames come as fast as they are taken
  std::string date = {};         // "day": "2026-11-27"; empty: today
  std::string truth_path = {};   // "day": write_truth() writes here; empty: nowhere
  std::shared_ptr<FrameInbox> inbox = {};             // source of the frames of "browser"
  int64_t most_posted_pixels = int64_t{1920} * 1080;  // limit for "browser"; larger frames are broken
};

// A raw format by ffmpeg's name and an alternative.
struct RawFormat {
  const char* name;
  const char* alias;
  ocellus_pixel_format format;
};
inline constexpr RawFormat kRawFormats[] = {
    {"nv12", "nv12", OCELLUS_NV12},    {"yuv420p", "i420", OCELLUS_I420},     {"yuv422p", "i422", OCELLUS_I422},
    {"yuv444p", "i444", OCELLUS_I444}, {"yuyv422", "yuyv", OCELLUS_YUYV},     {"rgb24", "rgb", OCELLUS_RGB8},
    {"bgr24", "bgr", OCELLUS_BGR8},    {"rgba", "rgba", OCELLUS_RGBA8},       {"bgra", "bgra", OCELLUS_BGRA8},
    {"gray", "gray8", OCELLUS_GRAY8},  {"gray16le", "gray16", OCELLUS_GRAY16}};
// Returns null if there is none of this name.
const RawFormat* find_raw_format(const std::string& name);
// "nv12, yuv420p, ..."
std::string raw_format_names();

// Known facts of the colors of raw frames.
struct FrameColor {
  std::optional<int32_t> matrix = {};  // ocellus_color_matrix
  std::optional<bool> full_range = {};
  // Returns these facts, unknown ones taken from `other`.
  FrameColor or_else(const FrameColor& other) const;
  void apply(Frame* frame) const;
};
// Returns the colors that GStreamer gives RGB where its caps do not say: BT.601 up to 576 lines, BT.709 above (1.22.0).
// ffmpeg makes BT.601 of every size (5.1.9).
FrameColor gstreamer_color(int32_t height);
// Parses SourceOptions::color. Throws a Failure for unknown names.
FrameColor parse_color(const std::string& text);

// Throws a Failure for options of raw frames, --stride and --depth-range, that `what` does not have.
void refuse_stride(const SourceOptions& options, const char* what);
void refuse_depth(const SourceOptions& options, const char* what);

// Throws a Failure that says what is wrong with the source.
std::unique_ptr<FrameSource> open_source(const SourceOptions& options);

}  // namespace ocellus::app

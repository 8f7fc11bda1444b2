// Where frames come from: a camera, a directory, a file, a pipe, a browser or a scene that is made up.
#ifndef OCELLUS_APPS_CAMERA_FRAME_SOURCE_H_
#define OCELLUS_APPS_CAMERA_FRAME_SOURCE_H_

#include <chrono>
#include <cstdint>
#include <memory>
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
  // Of raw frames on a pipe or in a file: "nv12", "yuyv422", "rgb24", "rgba", "gray"; empty: MJPEG or Y4M by their
  // first bytes. What to ask a camera for: "mjpeg", "yuyv422", "nv12".
  std::string format = {};
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

// Throws a Failure that says what is wrong with the source.
std::unique_ptr<FrameSource> open_source(const SourceOptions& options);

}  // namespace ocellus::app

#endif  // OCELLUS_APPS_CAMERA_FRAME_SOURCE_H_

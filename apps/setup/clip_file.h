// Clips: frames of a video on disk, chosen by the model's rule.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/camera/clip_frames.h"
#include "apps/setup/setup.h"

namespace ocellus::app {

struct ClipOptions {
  std::string path;              // a file of motion JPEG or Y4M, a picture, or a directory of pictures; empty: no clip
  double frames_per_second = 0;  // rate of the video; 0: the Y4M header's, MJPEG 30, directory 1
  int32_t frames = 0;            // maximum; 0: the model's
  ocellus_clip_sampling sampling = OCELLUS_CLIP_AS_AUTHORS;
};

struct Clip {
  std::string path;
  std::vector<Frame> frames;
  std::vector<double> seconds;  // time of each frame since the video's start
  double duration = 0;          // seconds of the whole video
  PictureSize largest;

  // Valid as long as the clip is.
  ClipFrames view() const;
};

// Reads the video twice: to count its frames, and to take the chosen ones. Leaves broken frames out and, unless
// `quiet`, reports them. Throws a Failure for a model that takes no clips, and for a path that is no video.
Clip read_clip(const Model& model, const ClipOptions& options, bool quiet);

}  // namespace ocellus::app

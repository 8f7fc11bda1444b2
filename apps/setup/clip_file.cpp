#include "apps/setup/clip_file.h"

#include <algorithm>
#include <filesystem>
#include <memory>

#include "apps/base/failure.h"
#include "apps/base/terminal.h"
#include "apps/camera/frame_source.h"
#include "apps/camera/sentences.h"

namespace ocellus::app {
namespace {

constexpr double kDaySeconds = 24.0 * 3600.0;

// Frames as fast as they can be read.
std::unique_ptr<FrameSource> open_video(const ClipOptions& options) {
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(options.path, ignored);
  const bool is_kept = is_regular_file(status) || is_directory(status);
  if (exists(status) && !is_kept) {
    throw Failure(kExitUsage, options.path + ": a clip is a file or a directory, as it is read twice.");
  }
  if (!is_kept) throw file_failure(options.path, "the clip cannot be opened");
  return open_source({.name = options.path, .frames_per_second = options.frames_per_second, .paced = false});
}

// The next frame that is not broken; false at the end.
bool read_frame(FrameSource* source, const std::string& path, Frame* frame, bool remarks) {
  for (;;) {
    const SourceEvent event = source->next(frame, std::chrono::milliseconds(100));
    if (event.kind == SourceEvent::kFrame) return true;
    if (event.kind == SourceEvent::kEnd) return false;
    if (event.kind == SourceEvent::kLost) throw Failure(kExitBadInput, about(path, event.what));
    if (event.kind == SourceEvent::kBroken && remarks) print_note("Note: " + about(path, event.what));
  }
}

void include(const Frame& frame, const std::string& path, PictureSize* largest) {
  ImageFile facts = {.path = path, .width = frame.width, .height = frame.height};
  if (frame.kind == FrameKind::kEncoded) {
    const ocellus_image_facts encoded = take(ocellus::probe_image(frame.bytes), path);
    facts.whole_pixels = encoded.whole_pixels;
    facts.is_gray16 = encoded.is_gray16 != 0;
  }
  largest->include(facts);
}

}  // namespace

Clip read_clip(const Model& model, const ClipOptions& options, bool quiet) {
  const int32_t most = options.frames > 0 ? options.frames : std::max(model.facts.clip_frames, 1);
  std::vector<int32_t> indices(static_cast<size_t>(most));
  const auto sample = [&](int32_t total, double duration) {
    return take(model.sample_clip(total, duration, indices, options.sampling));
  };
  (void)sample(1, 1);  // a model that takes clips
  const std::unique_ptr<FrameSource> counted = open_video(options);
  Frame frame;
  int32_t total = 0;
  while (read_frame(counted.get(), options.path, &frame, !quiet)) ++total;
  if (total == 0) throw Failure(kExitBadInput, options.path + ": the clip has no frames.");
  Clip clip;
  clip.path = options.path;
  const double rate = counted->frames_per_second();
  clip.duration = total / rate;
  if (clip.duration >= kDaySeconds) {
    throw Failure(kExitBadInput, options.path + ": at " + rate_text(rate) +
                                     " frames a second this is a day or more; a clip is shorter (see --fps).");
  }
  const std::unique_ptr<FrameSource> source = open_video(options);
  indices.resize(static_cast<size_t>(sample(total, clip.duration)));
  int32_t read = 0;
  for (const int32_t index : indices) {
    for (; read <= index; ++read) {
      if (!read_frame(source.get(), options.path, &frame, false)) {
        throw Failure(kExitBadInput, options.path + ": the clip became shorter while it was read.");
      }
    }
    include(frame, options.path, &clip.largest);
    clip.seconds.push_back(index / rate);
    clip.frames.push_back(frame);
  }
  return clip;
}

ClipFrames Clip::view() const {
  ClipFrames view = {.frames = {}, .seconds = seconds, .duration = duration};
  for (const Frame& frame : frames) view.frames.push_back(&frame);
  return view;
}

}  // namespace ocellus::app

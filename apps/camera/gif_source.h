// A frame source that reads the frames of an animated GIF.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/camera/frame_source.h"
#include "apps/camera/pacer.h"

namespace ocellus::app {

// Frames come at the file's mean rate unless `frames_per_second` is set, and with `loop` start again at its end.
class GifSource : public FrameSource {
 public:
  GifSource(const SourceOptions& options, std::vector<uint8_t> file, const ocellus_image_facts& facts);

  SourceEvent next(Frame* frame, std::chrono::milliseconds wait) override;
  std::string describe() const override;
  double frames_per_second() const override { return rate_; }

 private:
  std::vector<uint8_t> file_, memory_;
  int32_t width_, height_, frame_count_;
  bool paced_, loop_, at_end_ = false;
  double rate_;
  Pacer pacer_;
  int64_t place_ = 0, sequence_ = 0;
};

// Opens an animated GIF. Null if the file is another picture, a still one, or damaged.
std::unique_ptr<FrameSource> open_gif(const SourceOptions& options);

}  // namespace ocellus::app

// Clips of painted frames.
#pragma once

#include <vector>

#include "runtime/ocellus.h"
#include "tests/support/tiled_pictures.h"

namespace ocellus::test {

/// A clip to change and to add.
class TestClip {
 public:
  TestClip() = default;
  TestClip(const TestClip&) = delete;
  TestClip& operator=(const TestClip&) = delete;

  void add_frame(double second, int width, int height, int shift = 0) {
    pictures_.emplace_back(width, height, shift);
    seconds.push_back(second);
  }
  /// Valid until frames are added.
  const ocellus_part& part() {
    frames.clear();
    pixels_.clear();
    for (const TestPicture& picture : pictures_) {
      ocellus_frame frame = {};
      frame.format = OCELLUS_RGB8;
      frame.width = picture.width;
      frame.height = picture.height;
      frame.plane[0] = picture.pixels.data();
      frame.stride_bytes[0] = int64_t{3} * picture.width;
      pixels_.push_back(frame);
    }
    for (const ocellus_frame& frame : pixels_) frames.push_back({OCELLUS_PART_FRAME, 0, nullptr, 0, &frame, nullptr});
    clip = {static_cast<int32_t>(frames.size()), frames.data(), seconds.data(), duration};
    part_ = {OCELLUS_PART_CLIP, 0, nullptr, 0, nullptr, &clip};
    return part_;
  }

  std::vector<double> seconds;
  double duration = 0;
  std::vector<ocellus_part> frames;
  ocellus_clip clip = {};

 private:
  std::vector<TestPicture> pictures_;
  std::vector<ocellus_frame> pixels_;
  ocellus_part part_ = {};
};

}  // namespace ocellus::test

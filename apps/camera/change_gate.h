// Whether a frame shows anything new.
#pragma once

#include <array>
#include <cstdint>

#include "apps/camera/frame.h"

namespace ocellus::app {

// Compares frames with the last one that passed, as 32 x 24 grey cells of average brightness.
class ChangeGate {
 public:
  static constexpr int32_t kColumns = 32, kRows = 24;

  // `threshold`: the change of the cell that has changed most, in shares of full brightness, 0 to 1, that lets a frame
  // pass; 0 lets all pass.
  explicit ChangeGate(double threshold) : threshold_(threshold) {}
  void set_threshold(double threshold) { threshold_ = threshold; }

  // The change against the last frame that passed; 1 for the first one and after a change of size. A frame that cannot
  // be decoded has changed: who uses it will say why not.
  double change(const Frame& frame);
  // Whether the frame of the last call to change() passes; it is then what the next ones are compared with.
  bool pass();

 private:
  using Cells = std::array<uint8_t, kColumns * kRows>;
  double threshold_;
  Cells kept_ = {}, seen_ = {};
  int32_t kept_width_ = 0, kept_height_ = 0, seen_width_ = 0, seen_height_ = 0;
  double change_ = 0;
};

}  // namespace ocellus::app

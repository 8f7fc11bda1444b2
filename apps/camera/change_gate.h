// ChangeGate: detects frames that show something new.
#pragma once

#include <cstdint>
#include <vector>

#include "apps/camera/frame.h"

namespace ocellus::app {

// Compares frames with the last one that passed, as 32 x 24 cells of average brightness, channel by channel: a red
// thing on a green ground may be as bright as that.
class ChangeGate {
 public:
  static constexpr int32_t kColumns = 32, kRows = 24;

  // `threshold`: the change of the most changed cell, as a fraction of full brightness, 0 to 1, that lets a frame pass;
  // 0 lets all pass.
  explicit ChangeGate(double threshold) : threshold_(threshold) {}
  void set_threshold(double threshold) { threshold_ = threshold; }

  // Returns the change against the last frame that passed; 1 for the first one and after a change of size. A frame that
  // cannot be decoded counts as changed; decoding it reports the error.
  double change(const Frame& frame);
  // Returns true if the frame of the last change() passes; it is then the reference for the next ones.
  bool pass();

 private:
  double threshold_;
  std::vector<uint8_t> kept_, seen_;  // cells of all channels
  int32_t kept_width_ = 0, kept_height_ = 0, seen_width_ = 0, seen_height_ = 0;
  double change_ = 0;
};

}  // namespace ocellus::app

#include "apps/camera/change_gate.h"

#include <algorithm>
#include <cstdlib>

#include "apps/camera/picture_decode.h"

namespace ocellus::app {
namespace {

// Brightness of a frame's pixels: a byte every `step` bytes, or of RGB the mean with green, the brightest, counted
// twice.
struct Brightness {
  const uint8_t* first;
  int64_t step;
  bool rgb;
  int32_t at(int64_t pixel) const {
    const uint8_t* p = first + pixel * step;
    return rgb ? (p[0] + 2 * p[1] + p[2]) / 4 : *p;
  }
};

Brightness brightness_of(const Frame& frame) {
  const uint8_t* bytes = frame.bytes.data();
  switch (static_cast<ocellus_pixel_format>(frame.pixel_format)) {
    case OCELLUS_RGB8:
    case OCELLUS_BGR8: return {bytes, 3, true};
    case OCELLUS_RGBA8:
    case OCELLUS_BGRA8: return {bytes, 4, true};
    case OCELLUS_YUYV: return {bytes, 2, false};
    case OCELLUS_GRAY8:
    case OCELLUS_NV12:
    case OCELLUS_I420: break;
  }
  return {bytes, 1, false};
}

// Large cells are sampled: 16 x 16 pixels are enough for their average.
uint8_t average(const Brightness& brightness, int64_t width, int64_t left, int64_t right, int64_t top, int64_t bottom) {
  const int64_t step_x = std::max<int64_t>(1, (right - left) / 16), step_y = std::max<int64_t>(1, (bottom - top) / 16);
  int64_t sum = 0, count = 0;
  for (int64_t y = top; y < bottom; y += step_y) {
    for (int64_t x = left; x < right; x += step_x, ++count) sum += brightness.at(y * width + x);
  }
  return static_cast<uint8_t>(sum / std::max<int64_t>(1, count));
}

}  // namespace

double ChangeGate::change(const Frame& frame) {
  seen_width_ = seen_height_ = 0;
  change_ = 1;
  thread_local Picture picture;
  Brightness brightness = {};
  if (frame.kind == FrameKind::kEncoded) {
    if (!decode_grey(frame, &picture)) return change_;
    brightness = {picture.pixels.data(), 1, false};
    seen_width_ = picture.width;
    seen_height_ = picture.height;
  } else {
    const int64_t needed = pixel_bytes(frame.pixel_format, frame.width, frame.height);
    if (needed == 0 || static_cast<int64_t>(frame.bytes.size()) < needed) return change_;
    brightness = brightness_of(frame);
    seen_width_ = frame.width;
    seen_height_ = frame.height;
  }
  const int64_t width = seen_width_, height = seen_height_;
  for (int64_t row = 0; row < kRows; ++row) {
    const int64_t top = std::min(row * height / kRows, height - 1);
    const int64_t bottom = std::max(top + 1, (row + 1) * height / kRows);
    for (int64_t column = 0; column < kColumns; ++column) {
      const int64_t left = std::min(column * width / kColumns, width - 1);
      const int64_t right = std::max(left + 1, (column + 1) * width / kColumns);
      seen_[static_cast<size_t>(row * kColumns + column)] = average(brightness, width, left, right, top, bottom);
    }
  }
  if (seen_width_ != kept_width_ || seen_height_ != kept_height_) return change_;
  int most = 0;
  for (size_t i = 0; i < seen_.size(); ++i) most = std::max(most, std::abs(int{seen_[i]} - int{kept_[i]}));
  // Luma of 16..235 spans less than full brightness.
  const bool limited = frame.kind == FrameKind::kPixels && !frame.full_range && has_chroma(frame.pixel_format);
  change_ = std::min(1.0, most / (limited ? 219.0 : 255.0));
  return change_;
}

bool ChangeGate::pass() {
  if (change_ < threshold_) return false;
  kept_ = seen_;
  kept_width_ = seen_width_;
  kept_height_ = seen_height_;
  return true;
}

}  // namespace ocellus::app

#include "apps/camera/change_gate.h"

#include <algorithm>
#include <cstdlib>

#include "apps/camera/picture_decode.h"

namespace ocellus::app {
namespace {

// A channel of a picture: a byte every `step` bytes.
struct Channel {
  const uint8_t* first;
  int64_t step, width, height;
};

std::vector<Channel> channels_of(const uint8_t* bytes, int32_t format, int64_t width, int64_t height) {
  const int64_t half_width = (width + 1) / 2, half_height = (height + 1) / 2, luma = width * height;
  const auto rgb = [=](int64_t step) {
    return std::vector<Channel>{
        {bytes, step, width, height}, {bytes + 1, step, width, height}, {bytes + 2, step, width, height}};
  };
  switch (static_cast<ocellus_pixel_format>(format)) {
    case OCELLUS_RGB8:
    case OCELLUS_BGR8: return rgb(3);
    case OCELLUS_RGBA8:
    case OCELLUS_BGRA8: return rgb(4);
    case OCELLUS_YUYV:
      return {{bytes, 2, width, height}, {bytes + 1, 4, width / 2, height}, {bytes + 3, 4, width / 2, height}};
    case OCELLUS_NV12:
      return {{bytes, 1, width, height},
              {bytes + luma, 2, half_width, half_height},
              {bytes + luma + 1, 2, half_width, half_height}};
    case OCELLUS_I420:
      return {{bytes, 1, width, height},
              {bytes + luma, 1, half_width, half_height},
              {bytes + luma + half_width * half_height, 1, half_width, half_height}};
    case OCELLUS_I422:
    case OCELLUS_I444: {
      const int64_t chroma_width = format == OCELLUS_I422 ? half_width : width;
      return {{bytes, 1, width, height},
              {bytes + luma, 1, chroma_width, height},
              {bytes + luma + chroma_width * height, 1, chroma_width, height}};
    }
    case OCELLUS_GRAY16:  // comes as RGB
    case OCELLUS_GRAY8: break;
  }
  return {{bytes, 1, width, height}};
}

// The part of `size` that is the `index`-th of `count`, one at least.
struct Range {
  Range(int64_t index, int64_t count, int64_t size)
      : begin(std::min(index * size / count, size - 1)), end(std::max(begin + 1, (index + 1) * size / count)) {}
  int64_t begin, end;
};

// Large cells are sampled: 16 x 16 pixels are enough for their average.
uint8_t average(const Channel& channel, const Range& x, const Range& y) {
  const int64_t step_x = std::max<int64_t>(1, (x.end - x.begin) / 16);
  const int64_t step_y = std::max<int64_t>(1, (y.end - y.begin) / 16);
  int64_t sum = 0, count = 0;
  for (int64_t row = y.begin; row < y.end; row += step_y) {
    const uint8_t* const from = channel.first + row * channel.width * channel.step;
    for (int64_t column = x.begin; column < x.end; column += step_x, ++count) sum += from[column * channel.step];
  }
  return static_cast<uint8_t>(sum / std::max<int64_t>(1, count));
}

}  // namespace

double ChangeGate::change(const Frame& frame) {
  seen_width_ = seen_height_ = 0;
  change_ = 1;
  thread_local Picture picture;
  const bool is_decoded = frame.kind == FrameKind::kEncoded || frame.pixel_format == OCELLUS_GRAY16;
  const int64_t needed = is_decoded ? 0 : pixel_bytes(frame.pixel_format, frame.width, frame.height);
  if (is_decoded ? !decode_rgb(frame, &picture) : needed == 0 || std::ssize(frame.bytes) < needed) return change_;
  seen_width_ = is_decoded ? picture.width : frame.width;
  seen_height_ = is_decoded ? picture.height : frame.height;
  const uint8_t* const bytes = is_decoded ? picture.pixels.data() : frame.bytes.data();
  seen_.clear();
  for (const Channel& channel :
       channels_of(bytes, is_decoded ? OCELLUS_RGB8 : frame.pixel_format, seen_width_, seen_height_)) {
    for (int64_t row = 0; row < kRows; ++row) {
      const Range y(row, kRows, channel.height);
      for (int64_t column = 0; column < kColumns; ++column) {
        seen_.push_back(average(channel, Range(column, kColumns, channel.width), y));
      }
    }
  }
  if (seen_width_ != kept_width_ || seen_height_ != kept_height_ || seen_.size() != kept_.size()) return change_;
  int most = 0;
  for (size_t i = 0; i < seen_.size(); ++i) most = std::max(most, std::abs(int{seen_[i]} - int{kept_[i]}));
  // Luma of 16..235 spans less than full brightness.
  const bool limited = !is_decoded && !frame.full_range && has_chroma(frame.pixel_format);
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

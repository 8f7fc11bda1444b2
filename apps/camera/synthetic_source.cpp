#include "apps/camera/synthetic_source.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "apps/base/failure.h"
#include "apps/base/sizes.h"
#include "apps/camera/jpeg.h"
#include "apps/camera/picture_decode.h"
#include "apps/camera/pixel_convert.h"
#include "apps/camera/scene_painter.h"
#include "apps/camera/sentences.h"

namespace ocellus::app {
namespace {

constexpr int32_t kUsualWidth = 640, kUsualHeight = 480, kLeastSide = 16;
constexpr double kUsualRate = 30, kDayRate = 0.1, kMaxRate = 100'000;
constexpr double kLeastSpeed = 0.001, kMaxSpeed = 1'000'000;

int32_t checked_side(const char* what, int32_t side, int32_t usual) {
  if (side == 0) return usual;
  if (side >= kLeastSide && side <= kMaxSide && side % 2 == 0) return side;
  throw Failure(kExitUsage, std::string("The synthetic scene's ") + what + " is an even number from 16 to 8192, not " +
                                std::to_string(side) + ".");
}

double checked_rate(double rate, double usual) {
  if (rate == 0) return usual;
  if (rate > 0 && rate <= kMaxRate) return rate;
  throw Failure(kExitUsage,
                "The synthetic scene gives up to 100000 frames a second, not " + format_number(rate, 3) + ".");
}

double checked_speed(double speed) {
  if (speed == 0 || (speed >= kLeastSpeed && speed <= kMaxSpeed)) return speed;
  throw Failure(
      kExitUsage,
      "A day is played at 0.001 to 1000000 times its speed, or at 0, as fast as its frames are taken, not at " +
          format_number(speed, 3) + ".");
}

}  // namespace

SyntheticSource::SyntheticSource(const SourceOptions& options)
    : format_name_(options.format.empty() ? "rgb24" : options.format),
      asked_width_(checked_side("width", options.width, kUsualWidth)),
      asked_height_(checked_side("height", options.height, kUsualHeight)),
      width_(asked_width_),
      height_(asked_height_),
      rate_(checked_rate(options.frames_per_second, options.scene == "day" ? kDayRate : kUsualRate)),
      speed_(checked_speed(options.speed)),
      pacer_(speed_ > 0 ? rate_ * speed_ : std::numeric_limits<double>::infinity()),
      scene_(options.seed),
      plan_(parse_faults(options.faults)) {
  if (format_name_ == "rgb24") {
    format_ = Format::kRgb;
  } else if (format_name_ == "nv12") {
    format_ = Format::kNv12;
  } else if (format_name_ == "yuyv422") {
    format_ = Format::kYuyv;
  } else if (format_name_ == "mjpeg") {
    format_ = Format::kMjpeg;
  } else {
    throw Failure(kExitUsage,
                  "The synthetic scene comes as rgb24, nv12, yuyv422 or mjpeg, not as \"" + format_name_ + "\".");
  }
  open_day(options);
}

void SyntheticSource::open_day(const SourceOptions& options) {
  if (options.scene == "day") {
    date_ = parse_date(options.date);
    day_ = make_day(options.seed);
    if (!options.truth_path.empty()) write_truth(options.truth_path, *day_, date_, options.seed);
  } else if (!options.scene.empty() && options.scene != "shapes") {
    throw Failure(kExitUsage, "The synthetic scene is \"shapes\" or \"day\", not \"" + options.scene + "\".");
  } else if (options.speed != 1 || !options.date.empty() || !options.truth_path.empty()) {
    throw Failure(kExitUsage, "A speed, a date and a file for the truth are for the synthetic scene \"day\".");
  }
}

// The time of frame number_ since midnight; kDay_ms: after the day.
int64_t SyntheticSource::day_ms() const {
  const double ms = 1000 * static_cast<double>(number_ - 1) / rate_;
  return static_cast<int64_t>(std::min(std::round(ms), double{kDay_ms}));
}

std::string SyntheticSource::describe() const {
  if (day_) {
    return size_text(width_, height_) + " " + format_name_ + " of the scripted day " + date_.text + ", a frame every " +
           rate_text(1 / rate_) + " s of it";
  }
  return size_text(width_, height_) + " " + format_name_ + " of a synthetic scene, " + rate_text(rate_) +
         " frames a second";
}

void SyntheticSource::reopen() {
  if (monotonic_ns() < back_ns_) throw Failure(kExitRuntime, "The synthetic camera is still unplugged.");
  lost_ = false;
}

// Starts the stalls of this frame, each once.
bool SyntheticSource::stalls(int64_t number) {
  if (stalled_number_ == number) return false;
  stalled_number_ = number;
  double seconds = 0;
  for (const Fault& fault : plan_.faults) {
    if (fault.kind == Fault::kStall && plan_.strikes(fault, number)) seconds += fault.seconds;
  }
  if (seconds > 0) pacer_.hold(std::chrono::nanoseconds(static_cast<int64_t>(1e9 * seconds)));
  return seconds > 0;
}

// Applies the faults of frame number_; kFrame if the frame is delivered.
SourceEvent SyntheticSource::strike(bool* truncated, bool* damaged) {
  SourceEvent event = {.kind = SourceEvent::kFrame};
  const int64_t number = number_;
  for (const Fault& fault : plan_.faults) {
    if (!plan_.strikes(fault, number)) continue;
    switch (fault.kind) {
      case Fault::kStall: break;
      case Fault::kBroken: broken_left_ = std::max(broken_left_, fault.count); break;
      case Fault::kTruncated: *truncated = true; break;
      case Fault::kDamaged: *damaged = true; break;
      case Fault::kResize: {
        const bool back = fault.every && width_ == fault.width && height_ == fault.height;
        width_ = back ? asked_width_ : fault.width;
        height_ = back ? asked_height_ : fault.height;
        event.what = "The synthetic camera changes to " + size_text(width_, height_) + ".";
        break;
      }
      case Fault::kUnplug:
        lost_ = true;
        back_ns_ = monotonic_ns() + static_cast<int64_t>(1e9 * fault.seconds);
        break;
      case Fault::kErrors: errors_left_ = fault.count; break;
      case Fault::kSkip:
        skipped_ += fault.count;
        number_ += fault.count;
        break;
      case Fault::kEnd: ended_ = true; break;
    }
  }
  return event;
}

SourceEvent SyntheticSource::next(Frame* frame, std::chrono::milliseconds wait) {
  if (ended_) return {.kind = SourceEvent::kEnd};
  if (lost_) return {.kind = SourceEvent::kLost, .what = "The synthetic camera is unplugged."};
  if (!pacer_.wait_until_due(wait)) return {.kind = SourceEvent::kTimeout};
  if (stalls(number_ + 1) && !pacer_.wait_until_due(wait)) return {.kind = SourceEvent::kTimeout};
  ++number_;
  pacer_.advance();
  if (plan_.loop_frames > 0 && (number_ - 1) / plan_.loop_frames != pass_) {
    pass_ = (number_ - 1) / plan_.loop_frames;
    width_ = asked_width_;
    height_ = asked_height_;
  }
  bool truncated = false, damaged = false;
  SourceEvent event = strike(&truncated, &damaged);
  if (day_ && day_ms() == kDay_ms) ended_ = true;
  if (ended_) return {.kind = SourceEvent::kEnd};
  if (errors_left_ > 0) {
    --errors_left_;
    lost_ = true;
    return {.kind = SourceEvent::kLost, .what = "The synthetic camera's driver reports an input/output error."};
  }
  if (lost_) return {.kind = SourceEvent::kLost, .what = "The synthetic camera was unplugged."};
  if (broken_left_ > 0) {
    --broken_left_;
    return {.kind = SourceEvent::kBroken, .what = "The synthetic camera marks a frame as broken."};
  }
  paint(frame);
  if (truncated) {
    const size_t whole = frame->bytes.size();
    frame->bytes.resize(whole / 2);
    event.kind = SourceEvent::kBroken;
    event.what = format_ == Format::kMjpeg
                     ? finish_encoded(frame)
                     : "A frame has " + std::to_string(whole / 2) + " of its " + std::to_string(whole) + " bytes.";
    return event;
  }
  if (damaged) damage(frame);
  event.skipped = skipped_;
  skipped_ = 0;
  return event;
}

// Returns what frame number_ shows.
const Board& SyntheticSource::show_board() {
  if (day_) return day_->board_at(day_ms());
  scene_.advance(static_cast<double>(number_) / rate_);
  return scene_.board();
}

void SyntheticSource::paint(Frame* frame) {
  const Board& board = show_board();
  frame->truth = board.caption();
  frame->width = width_;
  frame->height = height_;
  frame->full_range = false;
  frame->sequence = number_;
  frame->captured_ns = monotonic_ns();
  frame->wall_ms = day_ ? date_.midnight_ms + day_ms() : 0;
  frame->kind = format_ == Format::kMjpeg ? FrameKind::kEncoded : FrameKind::kPixels;
  frame->pixel_format = OCELLUS_RGB8;
  if (format_ == Format::kRgb) {
    paint_scene(board, width_, height_, &frame->bytes);
    return;
  }
  canvas_.kind = FrameKind::kPixels;
  canvas_.pixel_format = OCELLUS_RGB8;
  canvas_.width = width_;
  canvas_.height = height_;
  paint_scene(board, width_, height_, &canvas_.bytes);
  encode(frame);
}

void SyntheticSource::encode(Frame* frame) {
  if (format_ == Format::kMjpeg) {
    make_jpeg(canvas_, 0, &frame->bytes);
    return;
  }
  frame->pixel_format = format_ == Format::kNv12 ? OCELLUS_NV12 : OCELLUS_YUYV;
  frame->bytes.resize(static_cast<size_t>(pixel_bytes(frame->pixel_format, width_, height_)));
  const auto convert = format_ == Format::kNv12 ? &convert_to_nv12 : &convert_to_yuyv;
  convert(canvas_.bytes.data(), width_, height_, frame->bytes.data());
}

// Flips bits in the second half of the data, where a JPEG has no headers; creates no marker.
void SyntheticSource::damage(Frame* frame) {
  for (size_t i = frame->bytes.size() / 2; i + 2 < frame->bytes.size(); i += 61) {
    const bool by_marker = frame->bytes[i - 1] == 0xFF || frame->bytes[i] == 0xFF || frame->bytes[i] == 0xA5;
    if (!by_marker) frame->bytes[i] ^= 0x5A;
  }
  frame->truth.clear();
}

}  // namespace ocellus::app

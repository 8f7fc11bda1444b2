#include "apps/camera/posted_source.h"

#include "apps/base/clock.h"
#include "apps/base/failure.h"
#include "apps/camera/jpeg_repair.h"
#include "apps/camera/picture_decode.h"
#include "apps/camera/sentences.h"

namespace ocellus::app {

bool FrameInbox::put(const std::string& sender, const std::string& jpeg, int64_t captured_ns) {
  const int64_t now_ns = monotonic_ns();
  const std::lock_guard<std::mutex> guard(mutex_);
  if (sender != sender_ && !sender_.empty() && now_ns - heard_ns_ < sender_silence_ns_) return false;
  sender_ = sender;
  heard_ns_ = now_ns;
  newest_.bytes.assign(jpeg.begin(), jpeg.end());
  newest_.captured_ns = captured_ns;
  replaced_ += waits_ ? 1 : 0;
  waits_ = true;
  changed_.notify_all();
  return true;
}

bool FrameInbox::take(Frame* frame, std::chrono::milliseconds wait, int64_t* replaced) {
  std::unique_lock<std::mutex> guard(mutex_);
  if (!changed_.wait_for(guard, wait, [this] { return waits_; })) return false;
  std::swap(frame->bytes, newest_.bytes);
  frame->captured_ns = newest_.captured_ns;
  *replaced = replaced_;
  replaced_ = 0;
  waits_ = false;
  return true;
}

PostedSource::PostedSource(const SourceOptions& options)
    : inbox_(options.inbox), most_pixels_(options.most_posted_pixels) {
  if (!inbox_) {
    throw Failure(kExitUsage, "browser: the frames come from the page, which needs --http: add --http 127.0.0.1:8080.");
  }
  refuse_stride(options, "the browser's camera");
  refuse_depth(options, "the browser's camera");
  if (!options.format.empty() || options.width > 0 || options.frames_per_second > 0 || options.loop) {
    throw Failure(kExitUsage, "browser: the page sets format, size and rate: omit --format, --size, --fps and --loop.");
  }
}

SourceEvent PostedSource::next(Frame* frame, std::chrono::milliseconds wait) {
  int64_t replaced = 0;
  if (!inbox_->take(frame, wait, &replaced)) return {.kind = SourceEvent::kTimeout};
  std::string wrong = is_jpeg(frame->bytes) ? finish_encoded(frame) : "A frame is not a JPEG.";
  if (wrong.empty() && int64_t{frame->width} * frame->height > most_pixels_) {
    wrong = "A frame of " + size_text(frame->width, frame->height) + " is larger than the planned maximum.";
  }
  if (!wrong.empty()) return {.kind = SourceEvent::kBroken, .what = wrong, .skipped = replaced};
  frame->truth.clear();
  width_ = frame->width;
  height_ = frame->height;
  return {.kind = SourceEvent::kFrame, .skipped = replaced};
}

std::string PostedSource::describe() const {
  return width_ > 0 ? size_text(width_, height_) + " JPEG of a browser's camera" : "a browser's camera";
}

}  // namespace ocellus::app

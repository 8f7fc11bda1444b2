#include "apps/camera/gif_source.h"

#include <algorithm>
#include <utility>

#include "apps/base/failure.h"
#include "apps/base/sizes.h"
#include "apps/camera/picture_decode.h"
#include "apps/camera/sentences.h"

namespace ocellus::app {

GifSource::GifSource(const SourceOptions& options, std::vector<uint8_t> file, const ocellus_image_facts& facts)
    : file_(std::move(file)),
      memory_(static_cast<size_t>(facts.decode_bytes)),
      width_(facts.width),
      height_(facts.height),
      frame_count_(facts.frame_count),
      paced_(options.paced),
      loop_(options.loop),
      rate_(options.frames_per_second > 0 ? options.frames_per_second : 1000.0 / facts.frame_ms),
      pacer_(rate_) {}

SourceEvent GifSource::next(Frame* frame, std::chrono::milliseconds wait) {
  if (at_end_) return {.kind = SourceEvent::kEnd};
  if (paced_ && !pacer_.wait_until_due(wait)) return {.kind = SourceEvent::kTimeout};
  const ocellus_status status =
      ocellus_image_next_frame(file_.data(), std::ssize(file_), &place_, memory_.data(), std::ssize(memory_));
  if (status != OCELLUS_OK) {
    at_end_ = true;
    return {.kind = SourceEvent::kBroken, .what = library_failure(status, "").what()};
  }
  if (place_ < 0) {
    place_ = 0;
    at_end_ = !loop_;
    return {.kind = at_end_ ? SourceEvent::kEnd : SourceEvent::kTimeout};
  }
  pacer_.advance();
  frame->kind = FrameKind::kPixels;
  frame->pixel_format = OCELLUS_RGB8;
  frame->width = width_;
  frame->height = height_;
  frame->depth = {};
  frame->truth.clear();
  frame->bytes.assign(memory_.begin(), memory_.begin() + pixel_bytes(OCELLUS_RGB8, width_, height_));
  frame->sequence = ++sequence_;
  frame->captured_ns = monotonic_ns();
  frame->file_ns = sequence_ * pacer_.period_ns();
  return {.kind = SourceEvent::kFrame};
}

std::string GifSource::describe() const {
  return size_text(width_, height_) + " GIF of " + format_count(frame_count_, "frame") + ", " + rate_text(rate_) +
         " a second" + (loop_ ? ", looped" : "");
}

std::unique_ptr<FrameSource> open_gif(const SourceOptions& options) {
  std::vector<uint8_t> file;
  ocellus_image_facts facts;
  if (!read_picture_file(options.name, &file).empty() || file.empty()) return nullptr;
  if (ocellus_image_probe(file.data(), std::ssize(file), &facts) != OCELLUS_OK || facts.frame_count < 2) return nullptr;
  refuse_stride(options, "a GIF");
  refuse_depth(options, "a GIF");
  return std::make_unique<GifSource>(options, std::move(file), facts);
}

}  // namespace ocellus::app

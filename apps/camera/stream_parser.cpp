#include "apps/camera/stream_parser.h"

#include <algorithm>

#include "apps/base/failure.h"
#include "apps/camera/jpeg_splitter.h"
#include "apps/camera/picture_decode.h"
#include "apps/camera/sentences.h"

namespace ocellus::app {
namespace {

class MjpegParser : public StreamParser {
 public:
  size_t take(const uint8_t* bytes, size_t count) override {
    splitter_.push(bytes, count);
    return count;
  }
  SourceEvent next(Frame* frame) override {
    SourceEvent event;
    switch (splitter_.next(&frame->bytes, &event.what)) {
      case JpegSplitter::kNeedMore: return {.kind = SourceEvent::kTimeout};
      case JpegSplitter::kBroken: event.kind = SourceEvent::kBroken; return event;
      case JpegSplitter::kFrame: break;
    }
    const std::string wrong = finish_encoded(frame);
    if (!wrong.empty()) return {.kind = SourceEvent::kBroken, .what = wrong};
    width_ = frame->width;
    height_ = frame->height;
    return {.kind = SourceEvent::kFrame};
  }
  bool finish() override { return splitter_.finish(); }
  std::string describe() const override { return width_ == 0 ? "mjpeg" : size_text(width_, height_) + " mjpeg"; }

 private:
  JpegSplitter splitter_;
  int32_t width_ = 0, height_ = 0;
};

class RawParser : public StreamParser {
 public:
  RawParser(const RawFormat& format, int32_t width, int32_t height, const FrameColor& color)
      : format_(format),
        color_(color),
        width_(width),
        height_(height),
        whole_(static_cast<size_t>(pixel_bytes(format.format, width, height))) {}

  size_t take(const uint8_t* bytes, size_t count) override {
    count = std::min(count, whole_ - have_);
    if (bytes_.size() != whole_) bytes_.resize(whole_);
    std::copy_n(bytes, count, bytes_.data() + have_);
    have_ += count;
    return count;
  }
  SourceEvent next(Frame* frame) override {
    if (have_ < whole_) return {.kind = SourceEvent::kTimeout};
    have_ = 0;
    std::swap(frame->bytes, bytes_);
    frame->kind = FrameKind::kPixels;
    frame->pixel_format = format_.format;
    frame->width = width_;
    frame->height = height_;
    color_.apply(frame);
    return {.kind = SourceEvent::kFrame};
  }
  bool finish() override {
    const bool begun = have_ > 0;
    have_ = 0;
    return begun;
  }
  std::string describe() const override { return size_text(width_, height_) + " " + format_.name; }

 private:
  RawFormat format_;
  FrameColor color_;
  int32_t width_, height_;
  size_t whole_, have_ = 0;  // bytes of a frame, and of the incomplete one so far
  std::vector<uint8_t> bytes_;
};

}  // namespace

std::unique_ptr<StreamParser> make_mjpeg_parser() { return std::make_unique<MjpegParser>(); }

std::unique_ptr<StreamParser> make_raw_parser(const std::string& format, int32_t width, int32_t height,
                                              const FrameColor& color) {
  const RawFormat* known = find_raw_format(format);
  if (known == nullptr) {
    throw Failure(kExitUsage, "Frames of the format \"" + format + "\" are not read: there are " + raw_format_names() +
                                  ", mjpeg and y4m.");
  }
  if (width < 1 || height < 1) {
    throw Failure(kExitUsage, "Raw frames of the format " + format + " need a width and a height.");
  }
  if (width > kMaxSide || height > kMaxSide || pixel_bytes(known->format, width, height) == 0) {
    throw Failure(
        kExitUsage,
        "Raw frames of the format " + format + " cannot have " + size_text(width, height) + " pixels" +
            (width > kMaxSide || height > kMaxSide ? ": at most 8192 x 8192 are read." : ": its sides are even."));
  }
  return std::make_unique<RawParser>(*known, width, height, color);
}

}  // namespace ocellus::app

#include "apps/camera/stream_parser.h"

#include <algorithm>

#include "apps/base/failure.h"
#include "apps/base/sizes.h"
#include "apps/camera/frame_layout.h"
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
  bool pause() override { return splitter_.pause(); }
  bool finish() override { return splitter_.finish(); }
  std::string describe() const override { return width_ == 0 ? "mjpeg" : size_text(width_, height_) + " mjpeg"; }

 private:
  JpegSplitter splitter_;
  int32_t width_ = 0, height_ = 0;
};

class RawParser : public StreamParser {
 public:
  RawParser(const RawFormat& format, const SourceOptions& options)
      : format_(format),
        width_(options.width),
        height_(options.height),
        layout_(parse_stride(options.stride, format.format, options.width, options.height)),
        color_(parse_color(options.color)),
        depth_(options.depth),
        whole_(static_cast<size_t>(layout_.bytes())) {
    if (options.stride == "gstreamer") color_ = color_.or_else(gstreamer_color(height_));
  }

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
    pack_planes(layout_, &bytes_);
    std::swap(frame->bytes, bytes_);
    frame->kind = FrameKind::kPixels;
    frame->pixel_format = format_.format;
    frame->width = width_;
    frame->height = height_;
    frame->depth = depth_;
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
  int32_t width_, height_;
  FrameLayout layout_;
  FrameColor color_;
  DepthRange depth_;
  size_t whole_, have_ = 0;  // bytes of a frame, and of the incomplete one so far
  std::vector<uint8_t> bytes_;
};

}  // namespace

std::unique_ptr<StreamParser> make_mjpeg_parser() { return std::make_unique<MjpegParser>(); }

std::unique_ptr<StreamParser> make_raw_parser(const SourceOptions& options) {
  const RawFormat* known = find_raw_format(options.format);
  if (known == nullptr) {
    throw Failure(kExitUsage, "Frames of the format \"" + options.format + "\" are not read: there are " +
                                  raw_format_names() + ", mjpeg and y4m.");
  }
  if (known->format != OCELLUS_GRAY16) refuse_depth(options, known->name);
  const int32_t width = options.width, height = options.height;
  if (width < 1 || height < 1) {
    throw Failure(kExitUsage, "Raw frames of the format " + options.format + " need a width and a height.");
  }
  if (width > kMaxSide || height > kMaxSide || pixel_bytes(known->format, width, height) == 0) {
    throw Failure(
        kExitUsage,
        "Raw frames of the format " + options.format + " cannot have " + size_text(width, height) + " pixels" +
            (width > kMaxSide || height > kMaxSide ? ": at most 8192 x 8192 are read." : ": its sides are even."));
  }
  return std::make_unique<RawParser>(*known, options);
}

std::string check_raw_file(const SourceOptions& options, int64_t file_bytes) {
  const RawFormat* known = find_raw_format(options.format);
  if (known == nullptr || !options.stride.empty()) return {};
  const int64_t packed = pixel_bytes(known->format, options.width, options.height);
  const int64_t padded = gstreamer_layout(known->format, options.width, options.height).bytes();
  if (packed == 0 || file_bytes == 0 || file_bytes % packed == 0 || file_bytes % padded != 0) return {};
  return "The file's " + format_bytes(file_bytes) + " are no whole number of frames of " + format_bytes(packed) +
         ", but of " + format_bytes(padded) + ", with rows padded as GStreamer pads them: add --stride gstreamer.";
}

}  // namespace ocellus::app

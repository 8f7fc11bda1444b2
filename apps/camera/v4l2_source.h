// V4l2Source: cameras by Linux' video interface, V4L2: /dev/videoN.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "apps/camera/frame_layout.h"
#include "apps/camera/frame_source.h"

namespace ocellus::app {

// System calls of a camera, so that a test can replace a driver. They fail as the system's do: -1 (map: MAP_FAILED) and
// errno.
struct V4l2System {
  std::function<int(const char* path)> open;
  std::function<int(int descriptor)> close;
  std::function<int(int descriptor, unsigned long request, void* argument)> ioctl;
  std::function<void*(size_t bytes, int descriptor, int64_t offset)> map;
  std::function<int(void* address, size_t bytes)> unmap;
  std::function<int(int descriptor, int wait_ms, short* events)> poll;  // waits for POLLIN and POLLPRI
};
V4l2System real_v4l2_system();

// Streams MJPEG or one of most kRawFormats from four buffers of the driver: `format` if it is set, else
// uncompressed up to 640 x 480 and MJPEG above, which fits the USB bus; with `depth` Z16 or Y16. The driver chooses the
// size and rate nearest to the requested ones; `color` overrides what it says of luma and chroma. Gaps in the driver's
// count are `skipped`; frames that the driver marks as damaged, that are short, and unreadable JPEG are kBroken; errors
// and unplugging are kLost.
class V4l2Source : public FrameSource {
 public:
  // Throws a Failure if there is no such camera, it is busy or it has none of the formats.
  explicit V4l2Source(const SourceOptions& options, V4l2System system = real_v4l2_system());
  ~V4l2Source() override;
  V4l2Source(const V4l2Source&) = delete;
  V4l2Source& operator=(const V4l2Source&) = delete;

  SourceEvent next(Frame* frame, std::chrono::milliseconds wait) override;
  std::string describe() const override;
  bool can_reopen() const override { return true; }
  void reopen() override;
  double frames_per_second() const override { return rate_; }

 private:
  struct Buffer {
    void* address = nullptr;
    size_t bytes = 0;
  };

  void open_camera();
  void close_camera();
  void check_capabilities();
  void choose_format();
  bool set_format(uint32_t format, int32_t width, int32_t height);
  void choose_rate();
  void map_buffers();
  int control(unsigned long request, void* argument);
  void require(unsigned long request, void* argument, const char* what);
  [[noreturn]] void fail(const std::string& sentence);
  SourceEvent lose(const std::string& sentence);
  bool source_changed();
  int64_t gap(uint32_t sequence);
  std::string copy(const Buffer& buffer, size_t used, Frame* frame) const;

  SourceOptions options_;
  V4l2System system_;
  int descriptor_ = -1;
  std::vector<Buffer> buffers_;
  uint32_t format_ = 0;  // V4L2_PIX_FMT_...
  int32_t width_ = 0, height_ = 0;
  FrameLayout layout_;  // layout of raw frames in the driver's buffers
  FrameColor asked_color_, color_;
  double rate_ = 0;
  bool counted_ = false;  // last_sequence_ is valid
  uint32_t last_sequence_ = 0;
  int64_t sequence_ = 0;
};

}  // namespace ocellus::app

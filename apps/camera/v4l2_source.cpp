#include "apps/camera/v4l2_source.h"

#include <fcntl.h>
#include <linux/videodev2.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "apps/base/failure.h"
#include "apps/camera/pacer.h"
#include "apps/camera/picture_decode.h"
#include "apps/camera/sentences.h"

namespace ocellus::app {
namespace {

constexpr uint32_t kBufferCount = 4, kLeastBuffers = 2;
constexpr int64_t kLargestUncompressed = 640 * 480;  // pixels, unless it is requested
constexpr int64_t kOldestStamp_ns = 10'000'000'000;  // maximum age of a driver's time stamp that is used
constexpr uint32_t kMaxFormats = 64;

// Formats in order of preference: the fewest bytes first, depth last.
struct CameraFormat {
  uint32_t format;
  int32_t pixel_format;  // ocellus_pixel_format
};
constexpr CameraFormat kFormats[] = {
    {V4L2_PIX_FMT_NV12, OCELLUS_NV12},  {V4L2_PIX_FMT_YUV420, OCELLUS_I420}, {V4L2_PIX_FMT_YUYV, OCELLUS_YUYV},
    {V4L2_PIX_FMT_BGR24, OCELLUS_BGR8}, {V4L2_PIX_FMT_RGB24, OCELLUS_RGB8},  {V4L2_PIX_FMT_ABGR32, OCELLUS_BGRA8},
    {V4L2_PIX_FMT_GREY, OCELLUS_GRAY8}, {V4L2_PIX_FMT_Z16, OCELLUS_GRAY16},  {V4L2_PIX_FMT_Y16, OCELLUS_GRAY16}};

int32_t pixel_format_of(uint32_t format) {
  for (const CameraFormat& known : kFormats) {
    if (known.format == format) return known.pixel_format;
  }
  return -1;
}

// Returns 0 if cameras have no such format.
uint32_t format_named(const std::string& name) {
  if (name == "mjpeg") return V4L2_PIX_FMT_MJPEG;
  const RawFormat* raw = find_raw_format(name);
  for (const CameraFormat& known : kFormats) {
    if (raw != nullptr && known.pixel_format == raw->format) return known.format;
  }
  return 0;
}

// "mjpeg, nv12, ..."
std::string camera_format_names() {
  std::string names = "mjpeg";
  for (const RawFormat& raw : kRawFormats) {
    const bool is_known = format_named(raw.name) != 0;
    if (is_known) names += std::string(", ") + raw.name;
  }
  return names;
}

const char* format_name(uint32_t format) {
  for (const RawFormat& known : kRawFormats) {
    if (known.format == pixel_format_of(format)) return known.name;
  }
  return "unknown";
}

bool same_format(uint32_t camera, uint32_t wanted) {  // some cameras call their motion JPEG just JPEG
  return camera == wanted || (wanted == V4L2_PIX_FMT_MJPEG && camera == V4L2_PIX_FMT_JPEG);
}

bool is_jpeg_format(uint32_t format) { return same_format(format, V4L2_PIX_FMT_MJPEG); }

// Colors stated by the driver, and the kernel's defaults for what it leaves open.
FrameColor color_of(const v4l2_pix_format& set) {
  uint32_t encoding = set.ycbcr_enc, range = set.quantization;
  if (encoding == V4L2_YCBCR_ENC_DEFAULT) encoding = V4L2_MAP_YCBCR_ENC_DEFAULT(set.colorspace);
  const bool is_rgb = false;
  if (range == V4L2_QUANTIZATION_DEFAULT) {
    range = V4L2_MAP_QUANTIZATION_DEFAULT(is_rgb, set.colorspace, set.ycbcr_enc);
  }
  const bool is_709 = encoding == V4L2_YCBCR_ENC_709 || encoding == V4L2_YCBCR_ENC_XV709;
  return {is_709 ? OCELLUS_BT709 : OCELLUS_BT601, range == V4L2_QUANTIZATION_FULL_RANGE};
}

}  // namespace

V4l2System real_v4l2_system() {
  return {
      .open = [](const char* path) { return ::open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC); },
      .close = [](int descriptor) { return ::close(descriptor); },
      .ioctl = [](int descriptor, unsigned long request,
                  void* argument) { return ::ioctl(descriptor, request, argument); },
      .map =
          [](size_t bytes, int descriptor, int64_t offset) {
            return ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, offset);
          },
      .unmap = [](void* address, size_t bytes) { return ::munmap(address, bytes); },
      .poll =
          [](int descriptor, int wait_ms, short* events) {
            pollfd watched = {descriptor, POLLIN | POLLPRI, 0};
            const int ready = ::poll(&watched, 1, wait_ms);
            *events = watched.revents;
            return ready;
          },
  };
}

V4l2Source::V4l2Source(const SourceOptions& options, V4l2System system)
    : options_(options), system_(std::move(system)) {
  if (!options_.format.empty() && format_named(options_.format) == 0) {
    throw Failure(kExitUsage,
                  "The --format of a camera is one of " + camera_format_names() + ", not \"" + options_.format + "\".");
  }
  refuse_stride(options_, "a camera");
  if (!options_.format.empty() && format_named(options_.format) != V4L2_PIX_FMT_Z16) {
    refuse_depth(options_, options_.format.c_str());
  }
  asked_color_ = parse_color(options_.color);
  if ((options_.width == 0) != (options_.height == 0) || options_.width < 0 || options_.height < 0 ||
      options_.width > kMaxSide || options_.height > kMaxSide) {
    throw Failure(kExitUsage, "The --size of a camera is 1 to 8192 pixels in width and height.");
  }
  open_camera();
}

V4l2Source::~V4l2Source() { close_camera(); }

void V4l2Source::reopen() {
  close_camera();
  open_camera();
}

void V4l2Source::fail(const std::string& sentence) {
  close_camera();
  throw Failure(kExitBadInput, options_.name + ": " + sentence);
}

int V4l2Source::control(unsigned long request, void* argument) {
  for (;;) {
    const int result = system_.ioctl(descriptor_, request, argument);
    if (result >= 0 || errno != EINTR) return result;
  }
}

void V4l2Source::require(unsigned long request, void* argument, const char* what) {
  if (control(request, argument) >= 0) return;
  const int error = errno;
  fail(error == EBUSY ? std::string("another program is using the camera.")
                      : std::string("the camera ") + what + ": " + std::strerror(error) + ".");
}

void V4l2Source::open_camera() {
  descriptor_ = system_.open(options_.name.c_str());
  if (descriptor_ < 0) {
    const int error = errno;
    fail(error == EACCES ? std::string("the camera may not be opened: its users are in the group \"video\".")
                         : std::string("the camera cannot be opened: ") + std::strerror(error) + ".");
  }
  check_capabilities();
  choose_format();
  choose_rate();
  map_buffers();
  v4l2_event_subscription subscription = {};
  subscription.type = V4L2_EVENT_SOURCE_CHANGE;  // sent by HDMI adapters; cameras do not have it
  control(VIDIOC_SUBSCRIBE_EVENT, &subscription);
  int type = V4L2_BUF_TYPE_VIDEO_CAPTURE;
  require(VIDIOC_STREAMON, &type, "does not start");
  counted_ = false;
}

void V4l2Source::close_camera() {
  if (descriptor_ < 0) return;
  int type = V4L2_BUF_TYPE_VIDEO_CAPTURE;
  control(VIDIOC_STREAMOFF, &type);
  for (const Buffer& buffer : buffers_) system_.unmap(buffer.address, buffer.bytes);
  buffers_.clear();
  v4l2_requestbuffers none = {};
  none.type = V4L2_BUF_TYPE_VIDEO_CAPTURE;
  none.memory = V4L2_MEMORY_MMAP;
  control(VIDIOC_REQBUFS, &none);
  system_.close(descriptor_);
  descriptor_ = -1;
}

void V4l2Source::check_capabilities() {
  v4l2_capability found = {};
  if (control(VIDIOC_QUERYCAP, &found) < 0) {
    const int error = errno;
    fail(error == ENOTTY || error == EINVAL
             ? std::string("this is no camera.")
             : std::string("the camera does not say what it can do: ") + std::strerror(error) + ".");
  }
  const uint32_t can = (found.capabilities & V4L2_CAP_DEVICE_CAPS) != 0 ? found.device_caps : found.capabilities;
  if ((can & V4L2_CAP_VIDEO_CAPTURE) == 0) {
    fail((can & V4L2_CAP_VIDEO_CAPTURE_MPLANE) != 0
             ? "this camera has multi-planar buffers only: read it through a pipe."
             : "this device takes no pictures: a camera often has more than one /dev/video, try the others.");
  }
  if ((can & V4L2_CAP_STREAMING) == 0) fail("this camera does not stream.");
}

bool V4l2Source::set_format(uint32_t format, int32_t width, int32_t height) {
  v4l2_format wanted = {};
  wanted.type = V4L2_BUF_TYPE_VIDEO_CAPTURE;
  wanted.fmt.pix.width = static_cast<uint32_t>(width);
  wanted.fmt.pix.height = static_cast<uint32_t>(height);
  wanted.fmt.pix.pixelformat = format;
  wanted.fmt.pix.field = V4L2_FIELD_ANY;
  if (control(VIDIOC_S_FMT, &wanted) < 0) {
    const int error = errno;
    if (error == EBUSY) fail("another program is using the camera.");
    return false;
  }
  const v4l2_pix_format& set = wanted.fmt.pix;
  if (set.pixelformat != format || set.width < 1 || set.height < 1 || set.width > kMaxSide || set.height > kMaxSide) {
    return false;
  }
  format_ = format;
  width_ = static_cast<int32_t>(set.width);
  height_ = static_cast<int32_t>(set.height);
  color_ = asked_color_.or_else(color_of(set));
  if (is_jpeg_format(format)) return true;
  const int32_t pixel_format = pixel_format_of(format);
  if (pixel_bytes(pixel_format, width_, height_) == 0) return false;
  const int64_t row_bytes = packed_layout(pixel_format, width_, height_).planes[0].row_bytes;
  layout_ = strided_layout(pixel_format, width_, height_, std::max<int64_t>(set.bytesperline, row_bytes));
  return true;
}

void V4l2Source::choose_format() {
  std::vector<uint32_t> offered;
  for (uint32_t i = 0; i < kMaxFormats; ++i) {
    v4l2_fmtdesc found = {};
    found.index = i;
    found.type = V4L2_BUF_TYPE_VIDEO_CAPTURE;
    if (control(VIDIOC_ENUM_FMT, &found) < 0) break;
    offered.push_back(found.pixelformat);
  }
  int32_t width = options_.width, height = options_.height;
  v4l2_format current = {};
  current.type = V4L2_BUF_TYPE_VIDEO_CAPTURE;
  if (width == 0 && control(VIDIOC_G_FMT, &current) >= 0) {
    width = static_cast<int32_t>(std::min<uint32_t>(current.fmt.pix.width, kMaxSide));
    height = static_cast<int32_t>(std::min<uint32_t>(current.fmt.pix.height, kMaxSide));
  }
  std::vector<uint32_t> wanted;
  for (const CameraFormat& known : kFormats) {
    const bool is_depth = known.pixel_format == OCELLUS_GRAY16;
    if (is_depth || !options_.depth.is_set()) wanted.push_back(known.format);
  }
  const bool is_large = int64_t{width} * height > kLargestUncompressed;
  const auto grey = std::find(wanted.begin(), wanted.end(), V4L2_PIX_FMT_GREY);
  if (!options_.depth.is_set()) wanted.insert(is_large ? wanted.begin() : grey, V4L2_PIX_FMT_MJPEG);  // color first
  if (!options_.format.empty()) {
    const uint32_t asked = format_named(options_.format);
    if (asked == V4L2_PIX_FMT_Z16) wanted.insert(wanted.begin(), V4L2_PIX_FMT_Y16);  // both are gray16le
    wanted.insert(wanted.begin(), asked);
  }
  for (const uint32_t format : wanted) {
    for (const uint32_t candidate : offered) {
      if (same_format(candidate, format) && set_format(candidate, width, height)) return;
    }
  }
  std::string names;
  for (const uint32_t format : offered) {
    names += names.empty() ? " " : ", ";
    for (int shift = 0; shift < 32; shift += 8) {
      const char c = static_cast<char>(format >> shift & 0x7F);
      if (c > ' ' && c <= '~') names += c;
    }
  }
  const std::string needed = options_.depth.is_set() ? "formats Z16 and Y16, whose depth --depth-range shows"
                                                     : "formats " + camera_format_names();
  fail("the camera has none of the " + needed + ", only" + (names.empty() ? " none" : names) + ".");
}

void V4l2Source::choose_rate() {
  rate_ = 0;
  v4l2_streamparm pace = {};
  pace.type = V4L2_BUF_TYPE_VIDEO_CAPTURE;
  if (options_.frames_per_second > 0) {
    pace.parm.capture.timeperframe = {1000, static_cast<uint32_t>(1000 * options_.frames_per_second + 0.5)};
    control(VIDIOC_S_PARM, &pace);  // cameras with a fixed rate ignore it
  }
  if (control(VIDIOC_G_PARM, &pace) < 0) return;
  const v4l2_fract& period = pace.parm.capture.timeperframe;
  if (period.numerator > 0) rate_ = static_cast<double>(period.denominator) / period.numerator;
}

void V4l2Source::map_buffers() {
  v4l2_requestbuffers wanted = {};
  wanted.count = kBufferCount;
  wanted.type = V4L2_BUF_TYPE_VIDEO_CAPTURE;
  wanted.memory = V4L2_MEMORY_MMAP;
  require(VIDIOC_REQBUFS, &wanted, "gives no buffers");
  if (wanted.count < kLeastBuffers) fail("the camera has too little memory for its buffers.");
  for (uint32_t i = 0; i < std::min(wanted.count, 4 * kBufferCount); ++i) {
    v4l2_buffer found = {};
    found.type = V4L2_BUF_TYPE_VIDEO_CAPTURE;
    found.memory = V4L2_MEMORY_MMAP;
    found.index = i;
    require(VIDIOC_QUERYBUF, &found, "does not show its buffers");
    void* address = system_.map(found.length, descriptor_, found.m.offset);
    if (address == MAP_FAILED) {
      fail(std::string("the camera's buffers cannot be mapped: ") + std::strerror(errno) + ".");
    }
    buffers_.push_back({address, found.length});
    require(VIDIOC_QBUF, &found, "does not take its buffers");
  }
}

std::string V4l2Source::describe() const {
  std::string text = size_text(width_, height_) + " " + (is_jpeg_format(format_) ? "mjpeg" : format_name(format_));
  if (rate_ > 0) text += ", " + rate_text(rate_) + " frames a second";
  return text;
}

SourceEvent V4l2Source::lose(const std::string& sentence) {
  close_camera();
  return {.kind = SourceEvent::kLost, .what = options_.name + ": " + sentence};
}

bool V4l2Source::source_changed() {
  for (int i = 0; i < 64; ++i) {
    v4l2_event event = {};
    if (control(VIDIOC_DQEVENT, &event) < 0) return false;
    if (event.type == V4L2_EVENT_SOURCE_CHANGE) return true;
  }
  return false;
}

// Frames that the driver counted but did not deliver. Drivers that do not count always give the same number.
int64_t V4l2Source::gap(uint32_t sequence) {
  const uint32_t steps = sequence - last_sequence_;
  const bool usable = counted_ && steps >= 1 && steps < 1u << 20;
  counted_ = true;
  last_sequence_ = sequence;
  return usable ? int64_t{steps} - 1 : 0;
}

SourceEvent V4l2Source::next(Frame* frame, std::chrono::milliseconds wait) {
  if (descriptor_ < 0) return {.kind = SourceEvent::kLost, .what = options_.name + ": the camera is closed."};
  short events = 0;
  const int ready = system_.poll(descriptor_, static_cast<int>(wait.count()), &events);
  if (ready == 0 || (ready < 0 && errno == EINTR)) return {.kind = SourceEvent::kTimeout};
  if (ready < 0) return lose(std::string("waiting for the camera failed: ") + std::strerror(errno) + ".");
  if ((events & POLLPRI) != 0 && source_changed()) return lose("the camera's picture format has changed.");
  if ((events & (POLLIN | POLLERR | POLLHUP | POLLNVAL)) == 0) return {.kind = SourceEvent::kTimeout};

  v4l2_buffer filled = {};
  filled.type = V4L2_BUF_TYPE_VIDEO_CAPTURE;
  filled.memory = V4L2_MEMORY_MMAP;
  if (control(VIDIOC_DQBUF, &filled) < 0) {
    const int error = errno;
    if (error == EAGAIN && (events & (POLLERR | POLLHUP | POLLNVAL)) == 0) return {.kind = SourceEvent::kTimeout};
    if (error == ENODEV || error == EAGAIN) return lose("the camera was disconnected.");
    return lose(std::string("the camera's driver failed: ") + std::strerror(error) + ".");
  }
  if (filled.index >= buffers_.size()) return lose("the camera's driver gave a buffer that does not exist.");

  SourceEvent event = {.kind = SourceEvent::kFrame, .skipped = gap(filled.sequence)};
  frame->captured_ns = monotonic_ns();
  if ((filled.flags & V4L2_BUF_FLAG_TIMESTAMP_MASK) == V4L2_BUF_FLAG_TIMESTAMP_MONOTONIC) {
    const int64_t stamp_ns = int64_t{filled.timestamp.tv_sec} * 1'000'000'000 + filled.timestamp.tv_usec * 1000;
    const int64_t age_ns = frame->captured_ns - stamp_ns;
    if (age_ns >= 0 && age_ns < kOldestStamp_ns) frame->captured_ns = stamp_ns;
  }
  frame->truth.clear();
  frame->width = width_;
  frame->height = height_;
  if ((filled.flags & V4L2_BUF_FLAG_ERROR) != 0) {
    event.what = "The camera's driver marks a frame as damaged.";
  } else {
    event.what = copy(buffers_[filled.index], filled.bytesused, frame);
  }
  if (control(VIDIOC_QBUF, &filled) < 0) {
    const int error = errno;
    if (error == ENODEV) return lose("the camera was disconnected.");
    return lose(std::string("the camera does not take its buffer back: ") + std::strerror(error) + ".");
  }
  if (!event.what.empty()) {
    event.kind = SourceEvent::kBroken;
  } else {
    frame->sequence = ++sequence_;
  }
  return event;
}

// Copies a frame out of the driver's buffer, which is filled again soon. Returns what is wrong with the frame.
std::string V4l2Source::copy(const Buffer& buffer, size_t used, Frame* frame) const {
  if (used > buffer.bytes) {
    return "A frame has " + std::to_string(used) + " bytes in a buffer of " + std::to_string(buffer.bytes) + ".";
  }
  const auto* from = static_cast<const uint8_t*>(buffer.address);
  if (is_jpeg_format(format_)) {
    frame->bytes.assign(from, from + used);
    return finish_encoded(frame);
  }
  frame->kind = FrameKind::kPixels;
  frame->pixel_format = pixel_format_of(format_);
  color_.apply(frame);
  frame->width = width_;
  frame->height = height_;
  frame->depth = options_.depth;
  const auto needed = static_cast<size_t>(layout_.needed_bytes());
  if (used < needed) return "A frame has " + std::to_string(used) + " of its " + std::to_string(needed) + " bytes.";
  frame->bytes.resize(static_cast<size_t>(pixel_bytes(frame->pixel_format, width_, height_)));
  pack_planes(layout_, from, frame->bytes.data());
  return {};
}

}  // namespace ocellus::app

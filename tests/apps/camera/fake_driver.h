// A simulated camera driver under V4L2's system calls, controlled by the test.
#pragma once

#include <fcntl.h>
#include <linux/videodev2.h>
#include <poll.h>
#include <sys/mman.h>

#include <cstring>

#include "apps/camera/v4l2_source.h"
#include "tests/apps/camera/support.h"

namespace ocellus::app::test {

struct DriverFrame {
  Bytes bytes;
  uint32_t sequence = 0;
  uint32_t flags = 0;
  uint32_t used = 0;  // value reported by the driver; 0: the real size
  int64_t stamp_ns = 0;
};

class FakeDriver {
 public:
  // Set by the test; under `lock` while a thread uses the driver.
  std::mutex lock;
  std::vector<uint32_t> formats = {V4L2_PIX_FMT_YUYV, V4L2_PIX_FMT_MJPEG};
  uint32_t width = 64, height = 48, padding = 0;  // padding: bytes after each row
  uint32_t capabilities = V4L2_CAP_VIDEO_CAPTURE | V4L2_CAP_STREAMING;
  uint32_t colorspace = V4L2_COLORSPACE_SRGB, encoding = V4L2_YCBCR_ENC_DEFAULT;
  uint32_t most_buffers = 8;
  size_t buffer_bytes = 64 << 10;
  bool present = true;
  int dequeue_error = 0;  // errno of every attempt to take a frame
  bool source_change = false;
  bool endless = false;  // YUYV or MJPEG frames without end
  Bytes endless_frame;
  std::deque<DriverFrame> script;

  // Read by the test.
  int opens = 0, closes = 0, mapped = 0;
  bool streaming = false;
  v4l2_format format = {};
  v4l2_fract period = {1, 30};
  uint32_t endless_sequence = 0;

  V4l2System system() {
    return {
        .open = [this](const char*) { return open(); },
        .close = [this](int) { return close(); },
        .ioctl = [this](int, unsigned long request, void* argument) { return control(request, argument); },
        .map = [this](size_t bytes, int, int64_t offset) { return map(bytes, offset); },
        .unmap = [this](void*, size_t) { return --mapped, 0; },
        .poll = [this](int, int wait_ms, short* events) { return poll(wait_ms, events); },
    };
  }

 private:
  static int fail(int error) {
    errno = error;
    return -1;
  }
  int open() {
    const std::lock_guard<std::mutex> guard(lock);
    if (!present) return fail(ENOENT);
    ++opens;
    CHECK(opens == closes + 1);
    queued_.clear();
    return 7;
  }
  int close() {
    const std::lock_guard<std::mutex> guard(lock);
    CHECK(mapped == 0);
    streaming = false;
    ++closes;
    return 0;
  }
  void* map(size_t bytes, int64_t offset) {
    const std::lock_guard<std::mutex> guard(lock);
    CHECK(bytes == buffer_bytes);
    ++mapped;
    return memory_[static_cast<size_t>(offset)].data();
  }
  int poll(int wait_ms, short* events) {
    {
      const std::lock_guard<std::mutex> guard(lock);
      *events = 0;
      if (!present) *events = POLLERR | POLLHUP;
      if (dequeue_error != 0) *events = POLLIN | POLLERR;
      if (source_change) *events |= POLLPRI;
      if (!script.empty() || endless) *events |= POLLIN;
      if (*events != 0) return 1;
    }
    std::this_thread::sleep_for(milliseconds(std::min(wait_ms, 5)));
    return 0;
  }
  int control(unsigned long request, void* argument) {
    const std::lock_guard<std::mutex> guard(lock);
    if (!present) return fail(ENODEV);
    switch (request) {
      case VIDIOC_QUERYCAP: static_cast<v4l2_capability*>(argument)->capabilities = capabilities; return 0;
      case VIDIOC_ENUM_FMT: return describe_format(static_cast<v4l2_fmtdesc*>(argument));
      case VIDIOC_G_FMT:
        static_cast<v4l2_format*>(argument)->fmt.pix.width = width;
        static_cast<v4l2_format*>(argument)->fmt.pix.height = height;
        return 0;
      case VIDIOC_S_FMT: return set_format(static_cast<v4l2_format*>(argument));
      case VIDIOC_S_PARM: period = static_cast<v4l2_streamparm*>(argument)->parm.capture.timeperframe; return 0;
      case VIDIOC_G_PARM: static_cast<v4l2_streamparm*>(argument)->parm.capture.timeperframe = period; return 0;
      case VIDIOC_REQBUFS: return request_buffers(static_cast<v4l2_requestbuffers*>(argument));
      case VIDIOC_QUERYBUF: return describe_buffer(static_cast<v4l2_buffer*>(argument));
      case VIDIOC_QBUF: return queue(static_cast<v4l2_buffer*>(argument));
      case VIDIOC_DQBUF: return dequeue(static_cast<v4l2_buffer*>(argument));
      case VIDIOC_STREAMON: streaming = true; return 0;
      case VIDIOC_STREAMOFF: streaming = false; return 0;
      case VIDIOC_SUBSCRIBE_EVENT: return 0;
      case VIDIOC_DQEVENT:
        if (!source_change) return fail(ENOENT);
        static_cast<v4l2_event*>(argument)->type = V4L2_EVENT_SOURCE_CHANGE;
        source_change = false;
        return 0;
      default: return fail(ENOTTY);
    }
  }
  int describe_format(v4l2_fmtdesc* found) const {
    if (found->index >= formats.size()) return fail(EINVAL);
    found->pixelformat = formats[found->index];
    return 0;
  }
  int set_format(v4l2_format* wanted) {
    v4l2_pix_format& pix = wanted->fmt.pix;
    if (std::find(formats.begin(), formats.end(), pix.pixelformat) == formats.end()) pix.pixelformat = formats[0];
    pix.width = width;  // this camera has one size
    pix.height = height;
    const bool jpeg = pix.pixelformat == V4L2_PIX_FMT_MJPEG;
    const bool is_wide = pix.pixelformat == V4L2_PIX_FMT_YUYV || pix.pixelformat == V4L2_PIX_FMT_Z16;
    pix.bytesperline = jpeg ? 0 : width * (is_wide ? 2 : 1) + padding;
    pix.colorspace = colorspace;
    pix.ycbcr_enc = encoding;
    format = *wanted;
    return 0;
  }
  int request_buffers(v4l2_requestbuffers* wanted) {
    if (wanted->count == 0) return 0;
    CHECK(wanted->count == 4);
    wanted->count = std::min(wanted->count, most_buffers);
    memory_.assign(wanted->count, Bytes(buffer_bytes, 0));
    return 0;
  }
  int describe_buffer(v4l2_buffer* found) const {
    CHECK(found->index < memory_.size());
    found->length = static_cast<uint32_t>(buffer_bytes);
    found->m.offset = found->index;
    return 0;
  }
  int queue(const v4l2_buffer* buffer) {
    CHECK(std::find(queued_.begin(), queued_.end(), buffer->index) == queued_.end());
    queued_.push_back(buffer->index);
    return 0;
  }
  int dequeue(v4l2_buffer* filled) {
    CHECK(streaming);
    if (dequeue_error != 0) return fail(dequeue_error);
    if (endless) script.push_back({endless_frame, endless_sequence++, 0, 0, 0});
    if (script.empty() || queued_.empty()) return fail(EAGAIN);
    const DriverFrame frame = script.front();
    script.pop_front();
    filled->index = queued_.front();
    queued_.pop_front();
    Bytes& memory = memory_[filled->index];
    std::memset(memory.data(), 0xEE, memory.size());
    std::copy_n(frame.bytes.begin(), std::min(frame.bytes.size(), memory.size()), memory.begin());
    filled->bytesused = frame.used != 0 ? frame.used : static_cast<uint32_t>(frame.bytes.size());
    filled->sequence = frame.sequence;
    filled->flags = frame.flags | (frame.stamp_ns != 0 ? V4L2_BUF_FLAG_TIMESTAMP_MONOTONIC : 0u);
    filled->timestamp.tv_sec = frame.stamp_ns / 1'000'000'000;
    filled->timestamp.tv_usec = frame.stamp_ns % 1'000'000'000 / 1000;
    return 0;
  }

  std::vector<Bytes> memory_;
  std::deque<uint32_t> queued_;
};

}  // namespace ocellus::app::test

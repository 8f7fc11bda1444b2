// LivePicture: the newest frame as a JPEG file, for viewers.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "apps/camera/frame.h"

namespace ocellus::app {

struct EncodedPicture {
  int64_t sequence = 0;
  int64_t captured_ns = 0;
  int32_t width = 0, height = 0;  // size of the frame
  std::vector<uint8_t> jpeg;
};

class LivePicture {
 public:
  static constexpr int32_t kMaxSide = 960;

  // `on_picture` is called for each new picture, on a thread of its own.
  explicit LivePicture(std::function<void(const EncodedPicture&)> on_picture);
  ~LivePicture();
  LivePicture(const LivePicture&) = delete;
  LivePicture& operator=(const LivePicture&) = delete;

  // Copies the frame if one is due: 15 a second if it was viewed in the last five seconds, else one a second. Does not
  // wait.
  void offer(const Frame& frame);
  void look() { looked_ns_ = now_ns(); }
  // Returns null before the first one.
  std::shared_ptr<const EncodedPicture> latest() const;

 private:
  static int64_t now_ns();
  void encode_frames();

  std::function<void(const EncodedPicture&)> on_picture_;
  std::atomic<int64_t> looked_ns_{0};
  int64_t offered_ns_ = 0;  // time of the last frame taken
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Frame waiting_;
  bool has_frame_ = false;
  bool stopping_ = false;
  std::shared_ptr<const EncodedPicture> latest_;
  std::thread thread_;
};

}  // namespace ocellus::app

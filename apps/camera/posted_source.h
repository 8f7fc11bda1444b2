// Frames that are posted by a client, as the page does with its viewer's camera.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>

#include "apps/camera/frame_source.h"

namespace ocellus::app {

// Passes frames between threads. Holds the newest frame only.
class FrameInbox {
 public:
  static constexpr int64_t kMaxBytes = int64_t{4} << 20;  // limit for a frame's file
  // A sender is replaced after this silence. Timers of a hidden tab fire once a second, so it sends every second or
  // two.
  static constexpr int64_t kSenderSilenceNs = 5'000'000'000;

  explicit FrameInbox(int64_t sender_silence_ns = kSenderSilenceNs) : sender_silence_ns_(sender_silence_ns) {}

  // Stores a frame in place of one that still waits. Returns false, and stores nothing, while another sender is active.
  bool put(const std::string& sender, const std::string& jpeg, int64_t captured_ns);
  // Swaps the waiting frame's bytes with *frame's and sets *replaced, the number of frames that it replaced. False if
  // none came in time.
  bool take(Frame* frame, std::chrono::milliseconds wait, int64_t* replaced);

 private:
  const int64_t sender_silence_ns_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string sender_;
  int64_t heard_ns_ = 0;  // last frame of the sender
  bool waits_ = false;
  Frame newest_;
  int64_t replaced_ = 0;
};

// A frame source of JPEG files from an inbox. Never ends; without a sender it times out.
class PostedSource : public FrameSource {
 public:
  // Throws a Failure without an inbox, or for options that do not apply.
  explicit PostedSource(const SourceOptions& options);

  SourceEvent next(Frame* frame, std::chrono::milliseconds wait) override;
  std::string describe() const override;

 private:
  std::shared_ptr<FrameInbox> inbox_;
  int64_t most_pixels_;
  int32_t width_ = 0, height_ = 0;  // size of the last frame
};

}  // namespace ocellus::app

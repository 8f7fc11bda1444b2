// Frames that others hand in, as the page does with its viewer's camera.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>

#include "apps/camera/frame_source.h"

namespace ocellus::app {

// Between who hands frames in and who reads them, on any threads. Holds the newest frame only.
class FrameInbox {
 public:
  static constexpr int64_t kMostBytes = int64_t{4} << 20;  // of a frame's file
  // After it somebody else may send. Timers of a tab that nobody sees fire once a second: it sends every second or two.
  static constexpr int64_t kSenderSilenceNs = 5'000'000'000;

  explicit FrameInbox(int64_t sender_silence_ns = kSenderSilenceNs) : sender_silence_ns_(sender_silence_ns) {}

  // Takes a frame in the place of one that still waits. False, and nothing taken, while somebody else sends.
  bool put(const std::string& sender, const std::string& jpeg, int64_t captured_ns);
  // Swaps the frame's bytes with those that wait, and tells how many frames these replaced. False if none came in time.
  bool take(Frame* frame, std::chrono::milliseconds wait, int64_t* replaced);

 private:
  const int64_t sender_silence_ns_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string sender_;
  int64_t heard_ns_ = 0;  // from the sender
  bool waits_ = false;
  Frame newest_;
  int64_t replaced_ = 0;
};

// JPEG files from an inbox. Never ends; while nobody sends, it is silent.
class PostedSource : public FrameSource {
 public:
  // Throws a Failure without an inbox, or for options that cannot be.
  explicit PostedSource(const SourceOptions& options);

  SourceEvent next(Frame* frame, std::chrono::milliseconds wait) override;
  std::string describe() const override;

 private:
  std::shared_ptr<FrameInbox> inbox_;
  int64_t most_pixels_;
  int32_t width_ = 0, height_ = 0;  // of the last frame
};

}  // namespace ocellus::app

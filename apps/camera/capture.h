// A thread that reads a source and keeps its newest frame only.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "apps/camera/frame_source.h"

namespace ocellus::app {

enum class SourceState { kRunning, kStalled, kLost, kEnded };
const char* source_state_name(SourceState state);  // "running", "stalled", "lost", "ended"

struct CaptureStatus {
  SourceState state = SourceState::kRunning;
  std::string format;             // FrameSource::describe
  std::string trouble;            // what happened last; empty while all is well
  int32_t width = 0, height = 0;  // of the newest frame
  int64_t captured = 0;           // frames that came
  int64_t dropped = 0;            // of these, those that a newer one replaced before anybody took them
  int64_t skipped = 0;            // frames that the source could not keep
  int64_t broken = 0;
  int64_t stalls = 0;  // times in which no frame came for `stall_after`
  int64_t losses = 0;  // times in which the source went away
  int64_t size_changes = 0;
  double frames_per_second = 0;  // lately
};

struct CaptureOptions {
  SourceOptions source = {};
  std::chrono::milliseconds stall_after{2000};
  std::chrono::milliseconds first_retry{250};  // doubles with every try, up to
  std::chrono::milliseconds last_retry{5000};
  // A source that can be opened again and has been stalled for so long is; 0: never.
  std::chrono::milliseconds reopen_after{15000};
  bool lossless = false;  // the next frame is read when the last one was taken: for pictures that must all be seen
  // How `source` is opened; empty: open_source. Tests hand in sources of their own.
  std::function<std::unique_ptr<FrameSource>(const SourceOptions&)> open = {};
  // Called on the capture's thread for every frame that came, before it waits to be taken, and for everything that
  // went wrong or right again (one sentence). May be empty. Must not block.
  std::function<void(const Frame&)> on_frame = {};
  std::function<void(const std::string&)> on_event = {};
};

class Capture {
 public:
  // Opens the source (throws its Failure) and starts the thread.
  explicit Capture(CaptureOptions options);
  // Takes 100 ms at most, also if the source hangs in a system call: then its thread is left to end by itself, and
  // calls nothing of `options` any more.
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  // Swaps the newest frame with *frame. False if none came within `wait`, or if the source has ended and its last frame
  // was taken.
  bool take(Frame* frame, std::chrono::milliseconds wait);
  CaptureStatus status() const;

 private:
  struct State;
  std::shared_ptr<State> state_;  // the thread's, too
};

}  // namespace ocellus::app

// Capture: a thread that reads a source and keeps only its newest frame.
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
  std::string trouble;            // latest trouble; empty if there is none
  int32_t width = 0, height = 0;  // size of the newest frame
  int64_t captured = 0;           // received frames
  int64_t dropped = 0;            // received frames that a newer one replaced before they were taken
  int64_t skipped = 0;            // frames that the source could not keep
  int64_t broken = 0;
  int64_t stalls = 0;  // waits for a frame longer than `stall_after`
  int64_t losses = 0;  // losses of the source
  int64_t size_changes = 0;
  double frames_per_second = 0;  // recent rate
};

struct CaptureOptions {
  SourceOptions source = {};
  std::chrono::milliseconds stall_after{2000};
  std::chrono::milliseconds first_retry{250};  // doubles after every attempt, up to last_retry
  std::chrono::milliseconds last_retry{5000};
  // A stalled source is reopened after this time, if it can be; 0: never.
  std::chrono::milliseconds reopen_after{15000};
  bool lossless = false;  // read the next frame only when the last one was taken, so that none is dropped
  // Opens `source`; empty: open_source. Tests pass their own.
  std::function<std::unique_ptr<FrameSource>(const SourceOptions&)> open = {};
  // Called on the capture's thread for every received frame, before it can be taken, and for every trouble and recovery
  // (one sentence). May be empty. Must not block.
  std::function<void(const Frame&)> on_frame = {};
  std::function<void(const std::string&)> on_event = {};
};

class Capture {
 public:
  // Opens the source (throws its Failure) and starts the thread.
  explicit Capture(CaptureOptions options);
  // Takes at most 100 ms, also if the source hangs in a system call: its thread then ends by itself and no longer calls
  // `options`.
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  // Swaps the newest frame with *frame. False if none came within `wait`, or if the source has ended and its last frame
  // was taken.
  bool take(Frame* frame, std::chrono::milliseconds wait);
  CaptureStatus status() const;

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the thread
};

}  // namespace ocellus::app

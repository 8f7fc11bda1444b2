// The engine of a watch: captions of frames or clips, and a memory of the last frames.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/camera/recent_frames.h"
#include "apps/setup/prompt.h"
#include "apps/setup/setup.h"
#include "apps/watch/frame_memory.h"
#include "apps/watch/watch_control.h"

namespace ocellus::app {

struct NarratorOptions {
  CommonOptions common;
  MemoryKind memory = MemoryKind::kReplay;
  ClipPace clips;                            // with frames: kClip is the kind of memory
  int64_t image_pixels = 0;                  // largest expected frame; 0: 1920 x 1080
  int32_t image_side = 0;                    // its longest side; 0: 8192
  std::optional<int64_t> whole_pixels = {};  // largest frame that is decoded as a whole; nullopt: 1920 x 1080
};

class Narrator {
 public:
  // Throws a Failure if the settings contradict the options, or do not fit the budget. Allocates nothing.
  static ocellus_plan plan(const Model& model, const NarratorOptions& options, const WatchSettings& settings);
  // The model must outlive this object.
  Narrator(const Model& model, const NarratorOptions& options, const WatchSettings& settings);

  // `shown`: a frame or a clip. deadline_ns: CLOCK_MONOTONIC, 0: none. Throws a Failure for a frame that cannot be
  // used.
  TurnAnswer caption(const TurnPart& shown, const std::string& prompt, int64_t deadline_ns, const TextSink& sink);
  FrameMemory& memory() { return *memory_; }
  // The sessions for questions: that of captions, unless frames are read while others are answered.
  std::vector<Session*> questions();
  const Running& running() const { return running_; }
  const CommonOptions& options() const { return common_; }
  // The form of captions, as --schema gives it, is not that of answers to questions.
  const CommonOptions& question_options() const { return question_options_; }

 private:
  ocellus_status begin_turn(std::vector<TurnPart>* parts);

  CommonOptions common_, question_options_;
  Running running_;
  Sessions others_;  // besides that of captions
  std::unique_ptr<FrameMemory> memory_;
  std::string beginning_;  // text before the picture of the last caption
};

}  // namespace ocellus::app

// FrameMemory: the last answered frames, for questions about all of them.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "apps/day/temporal_question.h"
#include "apps/watch/frame_turn.h"
#include "apps/watch/record.h"

namespace ocellus::app {

enum class MemoryKind {
  kReplay,   // frames are kept and read when a question is asked, numbered from 1: as exact as `ask`
  kRolling,  // frames are read as they come into a rolling session of their own; a question costs only its own text,
             // and numbers wrap around
  kClip,     // frames are kept and read as one clip, with their times, when a question is asked
  kLibrary,  // none are kept here: see DayMemory
};

class FrameMemory {
 public:
  // `session`: for kRolling, used by nothing else. `frames`: number of frames to keep.
  FrameMemory(Session* session, MemoryKind kind, int32_t frames);

  // Stores `frame`, answered as the record `id`. kRolling: throws a Failure if it cannot be read, and drops nothing.
  void remember(int64_t id, int64_t captured_ns, const Frame& frame);
  // Takes over the frames of an old memory. A rolling one has none to give: it does not keep them.
  void inherit(FrameMemory&& old);
  int32_t held() const { return static_cast<int32_t>(kept_.size()); }
  // Bytes of frames kept for questions, outside the plan.
  int64_t frame_bytes() const;

  // Answers with text, the frames that were asked about and times; captions are looked up in `records`. Throws a
  // Failure; the memory is then unchanged (kRolling: unless the session had to start again).
  void ask(const std::string& question, const CommonOptions& options, const TextSink& sink,
           const std::vector<Record>& newest_records, QuestionAnswer* answer);

 private:
  struct Kept {
    int64_t id;
    int64_t captured_ns;
    int32_t label;
    Frame frame;  // not in kRolling
  };
  // Opens a turn with the frames from first_shown() on.
  void show_frames();
  void show_numbered();
  void show_parts(const std::vector<TurnPart>& parts);
  ClipFrames clip() const;
  // kClip: the first frame after the last change of size.
  size_t first_shown() const;
  TurnAnswer say(const std::string& text, const CommonOptions& options, const TextSink& sink);
  std::string in_image(const Kept& kept) const;
  // Lists the frames asked about.
  void list_frames(QuestionAnswer* answer) const;
  void ask_directly(const std::string& question, const CommonOptions& options, const TextSink& sink,
                    QuestionAnswer* answer);
  void ask_when(const TemporalQuestion& question, const CommonOptions& options, QuestionAnswer* answer);
  void ask_what_changed(const CommonOptions& options, const std::vector<Record>& newest_records,
                        QuestionAnswer* answer);
  std::string describe(const Kept& kept, const CommonOptions& options, const std::vector<Record>& newest_records,
                       QuestionAnswer* answer);
  void forget();

  Session* session_;
  MemoryKind kind_;
  int32_t most_;
  std::deque<Kept> kept_;
  int64_t remembered_ = 0;
  bool turn_is_open_ = false;
};

}  // namespace ocellus::app

// DayAnswerer: answers questions about a day's frames.
//
// A question about a thing is answered by captions and by questions about single frames (thing_search.h), "what
// changed" by two captions. For any other the frames that fit best are linked into one prompt, each after its time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/day/day_frames.h"
#include "apps/day/day_question.h"
#include "apps/setup/turn_answer.h"

namespace ocellus::app {

struct SeenFrame {
  DayFrame frame;
  int32_t label = 0;   // its number in the model's prompt; 0: it was not in one
  bool named = false;  // the answer names it
};

struct DayAnswer {
  std::string text;
  std::vector<SeenFrame> frames;    // by time: those that the answer is about
  std::vector<int64_t> moments_ms;  // times that the answer names, since 1970
  std::optional<int64_t> count;     // the number, where a question counts
  std::string remark;               // the reason why frames could not be looked at again; empty: none
  int32_t checks = 0;               // frames that the model was asked about one by one
  int32_t tokens = 0;
  double first_token_ms = 0;  // time to the first token of the first prompt
};

class DayAnswerer {
 public:
  // `sessions`: use the frames' library, and nothing else uses them; several are asked about a frame each at once.
  // `most_frames`: images that a session has room for.
  DayAnswerer(std::vector<Session*> sessions, const DayFrames& frames, const CommonOptions& options,
              int32_t most_frames)
      : sessions_(std::move(sessions)), frames_(frames), options_(options), most_(most_frames) {}

  // Answers about this time only.
  void set_bounds(const TimeSpan& bounds) { bounds_ = bounds; }
  // `now_ms`: the time that "today" and "the last hour" are about. Throws a Failure, also where no frame is of the
  // time asked about.
  void ask(const std::string& question, int64_t now_ms, const TextSink& sink, DayAnswer* answer);

 private:
  struct Asked;
  void ask_about_thing(const Asked& asked, DayAnswer* answer);
  void describe(const Asked& asked, const std::vector<bool>& shown, DayAnswer* answer) const;
  void ask_what_changed(const Asked& asked, DayAnswer* answer);
  void ask_for_likeness(const Asked& asked, DayAnswer* answer);
  void ask_freely(const Asked& asked, const TextSink& sink, DayAnswer* answer);
  static const DayFrame& frame_at_moment(const Asked& asked);
  std::vector<DayFrame> choose(const Asked& asked) const;
  std::vector<bool> ask_each(const std::vector<DayFrame>& frames, const std::string& thing, DayAnswer* answer);
  bool link(Session* session, const DayFrame& frame, DayAnswer* answer);
  void count(const TurnAnswer& turn, DayAnswer* answer);

  const std::vector<Session*> sessions_;
  const DayFrames& frames_;
  const CommonOptions& options_;
  const int32_t most_;
  std::optional<TimeSpan> bounds_;
};

}  // namespace ocellus::app

#include "apps/watch/frame_memory.h"

#include <algorithm>
#include <cmath>
#include <ctime>

#include "apps/base/failure.h"
#include "apps/base/sizes.h"
#include "apps/base/stop_request.h"
#include "apps/setup/prompt.h"

namespace ocellus::app {
namespace {

constexpr int32_t kSinkTokens = 4;  // sinks of a rolling session

// Formats a time, "14:02:11 (12 s ago)".
std::string describe_time(int64_t at_ns) {
  const std::time_t seconds = static_cast<std::time_t>(wall_ms(at_ns) / 1000);
  std::tm local = {};
  localtime_r(&seconds, &local);
  char clock[16];
  std::strftime(clock, sizeof clock, "%H:%M:%S", &local);
  return std::string(clock) + " (" + format_number(static_cast<double>(monotonic_ns() - at_ns) / 1e9, 0) + " s ago)";
}

void add_stats(const TurnAnswer& turn, QuestionAnswer* answer) {
  if (answer->tokens == 0) answer->first_token_ms = turn.stats.first_token_ms;
  answer->tokens += turn.stats.generated_tokens;
}

// Names the frames nearest to each time: both of a pair, whose time in the prompt is their mean with one decimal.
void name_frames_at(const std::vector<double>& times, QuestionAnswer* answer) {
  constexpr double kRounding = 0.11;
  for (const double time : times) {
    const auto distance = [time](const AskedFrame& frame) { return std::abs(frame.seconds.value_or(0) - time); };
    double least = distance(answer->frames.front());
    for (const AskedFrame& frame : answer->frames) least = std::min(least, distance(frame));
    for (AskedFrame& frame : answer->frames) frame.named = frame.named || distance(frame) <= least + kRounding;
  }
}

}  // namespace

FrameMemory::FrameMemory(Session* session, MemoryKind kind, int32_t frames)
    : session_(session), kind_(kind), most_(frames) {
  if (kind_ == MemoryKind::kRolling) check(session_->set_rolling(most_, kSinkTokens));
}

int64_t FrameMemory::frame_bytes() const {
  int64_t bytes = 0;
  for (const Kept& kept : kept_) bytes += static_cast<int64_t>(kept.frame.bytes.capacity());
  return bytes;
}

void FrameMemory::remember(int64_t id, int64_t captured_ns, const Frame& frame) {
  if (kind_ == MemoryKind::kLibrary) return;
  const int32_t label = static_cast<int32_t>(remembered_ % most_) + 1;
  if (kind_ == MemoryKind::kRolling) {
    const StoppableWork work(session_->get());
    if (!turn_is_open_) check(session_->begin_turn());
    turn_is_open_ = true;
    const ocellus_status status =
        add_turn_parts(session_, {{.text = "Image " + std::to_string(label) + ":"}, {.frame = &frame}, {.text = "\n"}});
    if (status != OCELLUS_OK) return;
  }
  ++remembered_;
  Kept kept = {.id = id, .captured_ns = captured_ns, .label = label, .frame = {}};
  if (kept_.size() >= static_cast<size_t>(most_)) {
    std::swap(kept.frame, kept_.front().frame);  // its memory is reused
    kept_.pop_front();
  }
  if (kind_ != MemoryKind::kRolling) kept.frame = frame;
  kept_.push_back(std::move(kept));
}

void FrameMemory::inherit(FrameMemory&& old) {
  if (kind_ == MemoryKind::kRolling || old.kind_ == MemoryKind::kRolling) return;
  kept_ = std::move(old.kept_);
  while (kept_.size() > static_cast<size_t>(most_)) kept_.pop_front();
  remembered_ = static_cast<int64_t>(kept_.size());
}

size_t FrameMemory::first_shown() const {
  size_t first = 0;
  if (kind_ != MemoryKind::kClip) return first;
  for (size_t i = kept_.size(); i-- > 0 && first == 0;) {
    if (!fit_one_clip(kept_[i].frame, kept_.back().frame)) first = i + 1;
  }
  return first;
}

ClipFrames FrameMemory::clip() const {
  std::vector<const Frame*> frames;
  for (size_t i = first_shown(); i < kept_.size(); ++i) frames.push_back(&kept_[i].frame);
  return make_clip(std::move(frames));
}

void FrameMemory::show_numbered() {
  std::vector<TurnPart> parts;
  int32_t number = 0;
  for (Kept& kept : kept_) {
    kept.label = ++number;
    if (kept_.size() > 1) parts.push_back({.text = "Image " + std::to_string(kept.label) + ":"});
    parts.push_back({.frame = &kept.frame});
    if (kept_.size() > 1) parts.push_back({.text = "\n"});
  }
  show_parts(parts);
}

void FrameMemory::show_parts(const std::vector<TurnPart>& parts) {
  if (add_turn_parts(session_, parts) != OCELLUS_OK) throw Failure(kExitInterrupted, "the question was interrupted.");
}

void FrameMemory::show_frames() {
  if (kind_ == MemoryKind::kRolling) {
    if (!turn_is_open_) check(session_->begin_turn());
    turn_is_open_ = true;
    return;
  }
  check(session_->forget_all());
  check(session_->begin_turn());
  turn_is_open_ = true;
  if (kind_ == MemoryKind::kClip) {
    show_parts({{.clip = clip()}});
  } else {
    show_numbered();
  }
}

void FrameMemory::list_frames(QuestionAnswer* answer) const {
  const ClipFrames shown = kind_ == MemoryKind::kClip ? clip() : ClipFrames();
  const size_t first = first_shown();
  for (size_t i = first; i < kept_.size(); ++i) {
    AskedFrame asked = {.id = kept_[i].id, .captured_ns = kept_[i].captured_ns, .label = kept_[i].label};
    if (kind_ == MemoryKind::kClip) {
      asked.label = static_cast<int32_t>(i - first) + 1;
      asked.seconds = shown.seconds[i - first];
    }
    answer->frames.push_back(asked);
  }
}

TurnAnswer FrameMemory::say(const std::string& text, const CommonOptions& options, const TextSink& sink) {
  if (!turn_is_open_) check(session_->begin_turn());
  turn_is_open_ = false;
  check(session_->add_text(text));
  TurnAnswer answer = end_turn(session_, options, sink);
  if (answer.status == OCELLUS_CANCELLED) throw Failure(kExitInterrupted, "the question was interrupted.");
  return answer;
}

std::string FrameMemory::in_image(const Kept& kept) const {
  const bool is_alone = kind_ == MemoryKind::kReplay && kept_.size() == 1;
  return is_alone ? "" : " in image " + std::to_string(kept.label);
}

void FrameMemory::ask(const std::string& question, const CommonOptions& options, const TextSink& sink,
                      const std::vector<Record>& newest_records, QuestionAnswer* answer) {
  if (kept_.empty()) throw Failure(kExitUsage, "there is no frame in memory yet: ask again in a moment.");
  const int64_t start_ns = monotonic_ns();
  const StoppableWork work(session_->get());
  try {
    show_frames();
    list_frames(answer);
    // The frames of a clip have times, and a model that takes clips answers questions about them itself.
    const std::optional<TemporalQuestion> temporal =
        kind_ == MemoryKind::kClip ? std::nullopt : parse_temporal_question(question);
    if (!temporal) {
      ask_directly(question, options, sink, answer);
    } else if (temporal->kind == TemporalQuestion::kChange) {
      ask_what_changed(options, newest_records, answer);
    } else {
      ask_when(*temporal, options, answer);
    }
    if (temporal && sink) sink(answer->text);
  } catch (const Failure&) {
    forget();
    throw;
  }
  answer->answered_ns = monotonic_ns();
  answer->total_ms = static_cast<double>(answer->answered_ns - start_ns) / 1e6;
}

void FrameMemory::ask_directly(const std::string& question, const CommonOptions& options, const TextSink& sink,
                               QuestionAnswer* answer) {
  const TurnAnswer turn = say(question, options, sink);
  add_stats(turn, answer);
  answer->text = turn.text;
  if (kind_ == MemoryKind::kClip) return name_frames_at(find_seconds(turn.text), answer);
  for (const int number : find_image_numbers(turn.text, most_)) {
    for (AskedFrame& frame : answer->frames) frame.named = frame.named || frame.label == number;
  }
}

void FrameMemory::ask_when(const TemporalQuestion& question, const CommonOptions& options, QuestionAnswer* answer) {
  std::vector<bool> is_there;
  for (const Kept& kept : kept_) {
    const TurnAnswer turn = say("Is there " + question.thing + in_image(kept) + "?", options, nullptr);
    add_stats(turn, answer);
    is_there.push_back(says_yes(turn.text));
  }
  const int moment = find_moment(question.kind, is_there);
  if (moment < 0) {
    answer->text = describe_no_moment(question.kind, is_there);
    return;
  }
  AskedFrame& frame = answer->frames[static_cast<size_t>(moment)];
  frame.named = true;
  const bool came = question.kind == TemporalQuestion::kAppear;
  answer->text = (came ? "In image " : "It has disappeared in image ") + std::to_string(frame.label) + ", at " +
                 describe_time(frame.captured_ns) + ".";
}

std::string FrameMemory::describe(const Kept& kept, const CommonOptions& options,
                                  const std::vector<Record>& newest_records, QuestionAnswer* answer) {
  const auto record = std::find_if(newest_records.begin(), newest_records.end(),
                                   [&kept](const Record& one) { return one.id == kept.id; });
  if (record != newest_records.end() && record->prompt == kCaptionPrompt && !record->text.empty()) return record->text;
  const bool is_alone = kind_ == MemoryKind::kReplay && kept_.size() == 1;
  const TurnAnswer turn =
      say(is_alone ? "Describe this image." : "Describe image " + std::to_string(kept.label) + ".", options, nullptr);
  add_stats(turn, answer);
  return turn.text;
}

void FrameMemory::ask_what_changed(const CommonOptions& options, const std::vector<Record>& newest_records,
                                   QuestionAnswer* answer) {
  if (kept_.size() < 2) {
    answer->text = "There is only one frame in memory yet.";
    return;
  }
  const Kept& newest = kept_.back();
  const std::string text = describe(newest, options, newest_records, answer);
  answer->frames.back().named = true;
  for (size_t i = kept_.size() - 1; i-- > 0;) {  // back to the latest frame with another answer
    const std::string earlier = describe(kept_[i], options, newest_records, answer);
    if (earlier == text) continue;
    answer->frames[i].named = true;
    answer->text = describe_change(earlier, text) + " Since image " + std::to_string(kept_[i].label) + ", at " +
                   describe_time(kept_[i].captured_ns) + ".";
    return;
  }
  answer->text = "Nothing in the captions since " + describe_time(kept_.front().captured_ns) + ".";
}

void FrameMemory::forget() {
  // Drops what a failed question added. A replay begins with a reset anyway.
  turn_is_open_ = false;
  check(session_->forget_all());
  if (kind_ != MemoryKind::kRolling) return;
  check(session_->set_rolling(most_, kSinkTokens));
  kept_.clear();
  remembered_ = 0;
}

}  // namespace ocellus::app

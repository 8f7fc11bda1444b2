// The loop of `ocellus watch`: newest frame in, caption out, questions in between.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "apps/watch/answer_events.h"
#include "apps/watch/day_memory.h"
#include "apps/watch/frame_intake.h"
#include "apps/watch/live_picture.h"
#include "apps/watch/watch_engine.h"
#include "apps/watch/watch_history.h"
#include "apps/watch/watch_log.h"

namespace ocellus::app {

struct WatchOptions {
  NarratorOptions narrator;
  CaptureOptions capture;
  WatchSettings settings;
  int64_t frame_limit = 0;  // answered frames; 0: no limit
  bool stays = false;       // continues after the source's end, for viewers and questions
  std::string history_path;
  int64_t history_bytes = 0;
  DayOptions day;  // with MemoryKind::kLibrary
  AnswerEventOptions answers;
};

class Watcher {
 public:
  // Opens the source and creates the engine; throws their Failures. The model must outlive this object.
  Watcher(const Model& model, WatchOptions options);
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  // Runs until a stop is requested, the source ends or the frame limit is reached.
  int run();

  // Thread-safe:
  void set_listener(WatchListener* listener) { events_.set_listener(listener); }
  const WatchLog& log() const { return log_; }
  LivePicture& live() { return *live_; }
  // Inbox for the frames of "browser"; null for other sources.
  FrameInbox* inbox() const { return options_.capture.source.inbox.get(); }
  nlohmann::ordered_json state() const;
  std::string metrics() const;
  // Returns why frames are not answered; empty while they are.
  std::string trouble() const;
  // Both throw WatchEngine's Failures for what cannot be taken.
  void change_settings(const nlohmann::ordered_json& changes);
  // Returns the question's number; nullopt if too many questions wait.
  std::optional<int64_t> ask(const std::string& question);
  // The frames of the library; null without such a memory.
  DayFrames* day() const { return day_ ? &day_->frames() : nullptr; }
  // Removes the frames of the time that these words name ("between 9 and 10", "everything"); says how many, and of what
  // time. Throws a Failure for other words.
  std::string forget(const std::string& words);

 private:
  void open();
  void apply_settings();
  void answer_questions();
  QuestionAnswer answer(const WatchQuestion& question);
  void answer_from_day(const std::string& question, const TextSink& sink, QuestionAnswer* answer);
  void answer_frame();
  bool caption(Record* record);
  TurnAnswer describe(const TurnPart& shown, int64_t id);
  void keep(Record record);
  void publish_state(bool at_once);
  nlohmann::ordered_json make_state() const;
  int64_t now_ms() const;

  const Model& model_;
  const WatchOptions options_;
  // Thread-safe, but for the history; of the engine, the functions that say so:
  WatchEvents events_;
  WatchControl control_;
  WatchCounts counts_;
  WatchLog log_;
  WatchHistory history_;
  AnswerEvents answers_;
  WatchEngine engine_;
  std::unique_ptr<LivePicture> live_;
  std::unique_ptr<RecentFrames> recent_;  // null without clips
  std::unique_ptr<DayMemory> day_;        // null without a library of frames
  std::unique_ptr<Capture> capture_;      // after what its thread uses

  // Used by the loop only:
  std::unique_ptr<FrameIntake> intake_;
  std::vector<uint8_t> thumbnail_;
  int32_t failures_in_a_row_ = 0;
  int64_t last_state_ns_ = 0;
  const int64_t started_ns_;
  std::atomic<int64_t> scripted_ms_ = 0;  // time of the newest frame of a source with a clock of its own

  mutable std::mutex mutex_;  // guards state_
  nlohmann::ordered_json state_;
};

}  // namespace ocellus::app

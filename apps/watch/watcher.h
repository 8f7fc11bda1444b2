// The loop of `ocellus watch`: newest frame in, caption out, questions in between.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>

#include "apps/base/prometheus.h"
#include "apps/camera/capture.h"
#include "apps/camera/change_gate.h"
#include "apps/watch/history_folder.h"
#include "apps/watch/live_picture.h"
#include "apps/watch/narrator.h"
#include "apps/watch/watch_control.h"
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
};

// Receives events: name and data as the page gets them. Called on several threads; must not block.
class WatchListener {
 public:
  virtual ~WatchListener() = default;
  virtual void tell(const char* event, const nlohmann::ordered_json& data) = 0;
};

class Watcher {
 public:
  // Opens the source and creates the engine; throws their Failures. The model must outlive this object.
  Watcher(const Model& model, WatchOptions options);
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  // Call it before run(); may be null.
  void set_listener(WatchListener* listener);
  // Runs until a stop is requested, the source ends or the frame limit is reached.
  int run();

  // Thread-safe:
  WatchControl& control() { return control_; }
  const WatchLog& log() const { return log_; }
  LivePicture& live() { return *live_; }
  // Inbox for the frames of "browser"; null for other sources.
  FrameInbox* inbox() const { return options_.capture.source.inbox.get(); }
  nlohmann::ordered_json state() const;
  std::string metrics() const;
  // Returns why frames are not answered; empty while they are.
  std::string trouble() const;
  // Returns the settings with the changes of a JSON object. Throws a Failure: kExitUsage for an unknown setting or a
  // value out of range, kExitOverBudget if the plan would not fit.
  WatchSettings merge(const nlohmann::ordered_json& changes) const;
  // Throws a Failure for a question that is empty or too long.
  void check_text(const std::string& text) const;

 private:
  struct Counts {
    int64_t answered = 0, failed = 0, unchanged = 0, deadline_missed = 0;
    int64_t questions = 0, tokens = 0;
    int64_t seen_dropped = 0;  // Capture::dropped when the last frame was answered
    int64_t restarts = 0;      // engines created again after device failures
  };

  void note(const char* level, const std::string& text);
  void apply_settings();
  void use_settings(const WatchSettings& settings);
  NarratorOptions narrator_options() const;
  void remake(const WatchSettings& settings);
  void answer_questions();
  void answer(const WatchQuestion& question);
  bool take_frame();
  void answer_frame();
  // Throws a Failure for a JPEG whose data are damaged: its pixels would be described as if they were the scene.
  void remark_on_far_frame();
  void refuse_damage() const;
  TurnAnswer caption(const WatchSettings& settings, Record* record);
  void keep_record(Record record);
  void show_record(const Record& record);
  void publish_state(bool at_once);
  nlohmann::ordered_json make_state() const;
  nlohmann::ordered_json memory_state() const;
  nlohmann::ordered_json latency_state() const;

  const Model& model_;
  WatchOptions options_;
  WatchControl control_;
  WatchLog log_;
  std::mutex listener_mutex_;
  WatchListener* listener_ = nullptr;
  std::unique_ptr<LivePicture> live_;
  std::unique_ptr<Capture> capture_;
  std::unique_ptr<Narrator> narrator_;
  std::unique_ptr<HistoryFolder> history_;
  std::string history_trouble_;

  // Used by the loop only (settings_ and options_.narrator change under mutex_, as other threads read them, too):
  WatchSettings settings_;  // in force
  ChangeGate gate_;
  Frame frame_;
  double change_ = 1;
  int64_t next_due_ns_ = 0;
  int64_t last_state_ns_ = 0;
  int32_t failures_in_a_row_ = 0;
  std::vector<uint8_t> thumbnail_;
  std::deque<double> latencies_ms_;  // latest frames
  double last_age_ms_ = 0;
  ocellus_generate_stats last_stats_ = {};
  int64_t started_ns_;

  mutable std::mutex mutex_;  // guards the members below
  nlohmann::ordered_json state_;
  Counts counts_;
  Histogram first_token_, token_, age_, work_;
};

}  // namespace ocellus::app

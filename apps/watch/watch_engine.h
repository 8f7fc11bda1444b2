// WatchEngine: the narrator for the settings in force, made again when they change.
#pragma once

#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>

#include "apps/base/prometheus.h"
#include "apps/watch/narrator.h"

namespace ocellus::app {

class WatchEngine {
 public:
  // Throws a Failure if the settings do not fit the budget; creates no engine yet. The model must outlive this object.
  WatchEngine(const Model& model, const NarratorOptions& options, const WatchSettings& settings);

  // Used by the loop only:
  void start();
  // False after a Failure in remake() or fit() that left no engine.
  bool is_running() const { return narrator_ != nullptr; }
  Narrator& narrator() { return *narrator_; }
  const WatchSettings& settings() const { return settings_; }
  // Creates the engine again, with the frames in memory. Throws a Failure; if the plan does not fit, the engine stays.
  void remake(const WatchSettings& settings);
  // Takes settings that need no other engine.
  void use(const WatchSettings& settings);
  // Creates the engine again if the frame is larger than planned for; Failures as in remake().
  void fit(const Frame& frame);
  // `last`: stats of the last caption. `other_frame_bytes`: of frames that are kept elsewhere, outside the plan, too.
  nlohmann::ordered_json memory_state(const ocellus_generate_stats& last, int64_t other_frame_bytes) const;
  nlohmann::ordered_json model_state() const;

  // Thread-safe:
  bool serves(const WatchSettings& settings) const;
  // Returns `settings` with the changes of a JSON object. Throws a Failure: kExitUsage for an unknown setting or a
  // value out of range, kExitOverBudget if the plan would not fit.
  WatchSettings merge(const nlohmann::ordered_json& changes, const WatchSettings& settings) const;
  // Throws a Failure for a prompt or question that is empty or too long.
  void check_text(const std::string& text) const;
  nlohmann::ordered_json limits_state() const;

 private:
  int32_t max_frames() const;

  const Model& model_;
  std::unique_ptr<Narrator> narrator_;
  mutable std::mutex mutex_;  // guards the members below: the loop locks it to change them, other threads to read them
  NarratorOptions options_;   // only the size of frames changes
  WatchSettings settings_;
};

// Adds what a memory_state says.
void add_memory_metrics(const nlohmann::ordered_json& memory, PrometheusText* text);

}  // namespace ocellus::app

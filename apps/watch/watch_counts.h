// WatchCounts: what a watch has done so far, for its state and its metrics. Thread-safe.
#pragma once

#include <deque>
#include <mutex>
#include <nlohmann/json.hpp>

#include "apps/base/draft_counts.h"
#include "apps/base/prometheus.h"
#include "apps/camera/capture.h"
#include "apps/watch/record.h"

namespace ocellus::app {

class WatchCounts {
 public:
  // Counts a frame that was answered or has failed. `dropped`: CaptureStatus::dropped; sets the record's share of it.
  void add(int64_t dropped, Record* record);
  void add_unchanged();
  void add_question();
  void add_restart();

  // Returns the number of frames that were answered or have failed.
  int64_t records() const;
  // Returns the stats of the last answered frame.
  ocellus_generate_stats last_stats() const;
  nlohmann::ordered_json frames_state(const CaptureStatus& source) const;
  // Returns milliseconds over the latest answered frames; null before the first one.
  nlohmann::ordered_json latency_state() const;
  void add_metrics(const CaptureStatus& source, PrometheusText* text) const;

 private:
  mutable std::mutex mutex_;  // guards all of the members
  int64_t answered_ = 0, failed_ = 0, unchanged_ = 0, deadline_missed_ = 0;
  int64_t questions_ = 0, tokens_ = 0, encoded_views_ = 0, known_views_ = 0;
  DraftCounts drafts_;
  int64_t seen_dropped_ = 0;  // CaptureStatus::dropped at the last record
  int64_t restarts_ = 0;      // engines created again after device failures
  std::deque<double> latencies_ms_;
  double last_age_ms_ = 0;
  ocellus_generate_stats last_stats_ = {};
  Histogram first_token_, token_, age_, work_;
};

}  // namespace ocellus::app

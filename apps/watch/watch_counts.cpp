#include "apps/watch/watch_counts.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "apps/base/token_count.h"

namespace ocellus::app {
namespace {

constexpr size_t kLatencies = 512;

// Returns the quantile `share` of the sorted values.
double quantile(const std::vector<double>& sorted, double share) {
  const auto at = static_cast<size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::min(sorted.size() - 1, at > 0 ? at - 1 : 0)];
}

}  // namespace

void WatchCounts::add(int64_t dropped, Record* record) {
  const std::lock_guard lock(mutex_);
  record->dropped = dropped - seen_dropped_;
  seen_dropped_ = dropped;
  ++(record->error.empty() ? answered_ : failed_);
  deadline_missed_ += record->deadline_missed ? 1 : 0;
  const int32_t tokens = written_tokens(record->stats);
  tokens_ += tokens;
  drafts_.add(record->stats);
  encoded_views_ += record->stats.encoded_views;
  known_views_ += record->stats.known_views;
  if (!record->error.empty()) return;
  last_stats_ = record->stats;
  latencies_ms_.push_back(record->total_ms);
  if (latencies_ms_.size() > kLatencies) latencies_ms_.pop_front();
  last_age_ms_ = record->age_ms;
  age_.add(record->age_ms / 1e3);
  work_.add(record->total_ms / 1e3);
  if (tokens > 0) first_token_.add(record->stats.first_token_ms / 1e3);
  if (tokens > 1) token_.add(record->stats.decode_ms / 1e3 / (tokens - 1));
}

void WatchCounts::add_unchanged() {
  const std::lock_guard lock(mutex_);
  ++unchanged_;
}

void WatchCounts::add_question() {
  const std::lock_guard lock(mutex_);
  ++questions_;
}

void WatchCounts::add_restart() {
  const std::lock_guard lock(mutex_);
  ++restarts_;
}

int64_t WatchCounts::records() const {
  const std::lock_guard lock(mutex_);
  return answered_ + failed_;
}

ocellus_generate_stats WatchCounts::last_stats() const {
  const std::lock_guard lock(mutex_);
  return last_stats_;
}

nlohmann::ordered_json WatchCounts::frames_state(const CaptureStatus& source) const {
  const std::lock_guard lock(mutex_);
  return {{"captured", source.captured},
          {"dropped", source.dropped},
          {"skipped", source.skipped},
          {"unchanged", unchanged_},
          {"broken", source.broken},
          {"answered", answered_},
          {"failed", failed_},
          {"deadline_missed", deadline_missed_},
          {"stalls", source.stalls},
          {"losses", source.losses},
          {"size_changes", source.size_changes}};
}

nlohmann::ordered_json WatchCounts::latency_state() const {
  const std::lock_guard lock(mutex_);
  if (latencies_ms_.empty()) {
    return {{"last", nullptr}, {"mean", nullptr}, {"p95", nullptr}, {"p99", nullptr}, {"age_last", nullptr}};
  }
  std::vector<double> sorted(latencies_ms_.begin(), latencies_ms_.end());
  std::sort(sorted.begin(), sorted.end());
  return {{"last", latencies_ms_.back()},
          {"mean", std::accumulate(sorted.begin(), sorted.end(), 0.0) / static_cast<double>(sorted.size())},
          {"p95", quantile(sorted, 0.95)},
          {"p99", quantile(sorted, 0.99)},
          {"age_last", last_age_ms_}};
}

void WatchCounts::add_metrics(const CaptureStatus& source, PrometheusText* text) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [state, count] :
       std::initializer_list<std::pair<const char*, int64_t>>{{"captured", source.captured},
                                                              {"dropped", source.dropped},
                                                              {"skipped", source.skipped},
                                                              {"broken", source.broken},
                                                              {"unchanged", unchanged_},
                                                              {"answered", answered_},
                                                              {"failed", failed_},
                                                              {"deadline_missed", deadline_missed_}}) {
    text->add_counter("ocellus_frames_total", "Frames by outcome.", static_cast<double>(count),
                      std::string("state=\"") + state + "\"");
  }
  text->add_counter("ocellus_source_stalls_total", "Stalls of the source.", static_cast<double>(source.stalls));
  text->add_counter("ocellus_source_losses_total", "Losses of the source.", static_cast<double>(source.losses));
  text->add_gauge("ocellus_source_up", "1 while frames arrive.", source.state == SourceState::kRunning ? 1 : 0);
  text->add_counter("ocellus_questions_total", "Questions about frames in memory.", static_cast<double>(questions_));
  text->add_counter("ocellus_engine_restarts_total", "After failures of the device.", static_cast<double>(restarts_));
  text->add_counter("ocellus_generation_tokens_total", "Tokens of captions.", static_cast<double>(tokens_));
  drafts_.write(text);
  for (const auto& [state, count] :
       std::initializer_list<std::pair<const char*, int64_t>>{{"encoded", encoded_views_}, {"known", known_views_}}) {
    text->add_counter("ocellus_views_total", "Views of frames by whether they were encoded or their rows were kept.",
                      static_cast<double>(count), std::string("state=\"") + state + "\"");
  }
  text->add_histogram("ocellus_time_to_first_token_seconds",
                      "From a frame's preprocessing to its caption's first token.", first_token_);
  text->add_histogram("ocellus_inter_token_latency_seconds", "Mean of a caption's tokens after the first.", token_);
  text->add_histogram("ocellus_frame_latency_seconds", "From the beginning of a frame's work to its end.", work_);
  text->add_histogram("ocellus_frame_age_seconds", "From a frame's capture to the end of its caption.", age_);
}

}  // namespace ocellus::app

// Metrics of the endpoint in Prometheus' text format.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "apps/base/draft_counts.h"
#include "apps/base/prometheus.h"
#include "apps/http/http_server.h"
#include "apps/serve/chat_usage.h"
#include "runtime/ocellus.h"

namespace ocellus::app {

// Thread-safe.
class ServeMetrics {
 public:
  explicit ServeMetrics(int64_t most_http_bytes);
  void count_request(int status);  // requests that the model answers
  void count_finish(const std::string& reason);
  void count_tokens(const ChatUsage& usage);
  void count_views(const ocellus_generate_stats& stats);
  void observe_queue(double seconds);
  void count_drafts(const ocellus_generate_stats& stats);
  void observe_first_token(double seconds);
  void observe_next_token(double seconds);
  void observe_request(double seconds);
  void set_load(int64_t running, int64_t waiting, double cache_share);
  // Shows what sessions share; without a call nothing is shown of it.
  void set_sharing(const ocellus_engine_stats& stats);
  void set_plan(const ocellus_plan& plan);
  std::string text(const HttpCounts& http) const;

 private:
  const int64_t most_http_bytes_;
  mutable std::mutex mutex_;
  std::map<int, int64_t> requests_;
  std::map<std::string, int64_t> finishes_;
  int64_t prompt_tokens_ = 0, cached_tokens_ = 0, generated_tokens_ = 0;
  int64_t encoded_views_ = 0, known_views_ = 0;
  DraftCounts drafts_;
  int64_t running_ = 0, waiting_ = 0;
  double cache_share_ = 0;
  std::optional<ocellus_engine_stats> sharing_;
  std::array<double, 4> plan_bytes_ = {};  // weights, session, scratch, staging
  double budget_bytes_ = 0;
  Histogram queue_, first_token_, next_token_, request_;
};

}  // namespace ocellus::app

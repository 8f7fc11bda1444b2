#include "apps/serve/serve_metrics.h"

namespace ocellus::app {
namespace {

constexpr int kClientClosedRequest = 499;

// The bounds of vLLM's metrics.
constexpr double kFirstTokenBounds[] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5,
                                        0.75,  1,     2.5,  5,    7.5,  10,   20,   40,  80};
constexpr double kNextTokenBounds[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1,
                                       0.15,  0.2,    0.3,   0.4,  0.5,   0.75, 1,     2.5};
constexpr double kRequestBounds[] = {0.05, 0.1, 0.3, 0.5, 0.8, 1,  1.5, 2,   2.5, 5,
                                     10,   15,  20,  30,  40,  50, 60,  120, 240, 480};

}  // namespace

ServeMetrics::ServeMetrics(int64_t most_http_bytes)
    : most_http_bytes_(most_http_bytes),
      queue_(kFirstTokenBounds),
      first_token_(kFirstTokenBounds),
      next_token_(kNextTokenBounds),
      request_(kRequestBounds) {}

void ServeMetrics::count_request(int status) {
  const std::lock_guard lock(mutex_);
  ++requests_[status];
}

void ServeMetrics::count_finish(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  ++finishes_[reason];
  ++requests_[reason == "abort" ? kClientClosedRequest : 200];
}

void ServeMetrics::count_tokens(const ChatUsage& usage) {
  const std::lock_guard lock(mutex_);
  prompt_tokens_ += usage.prompt_tokens;
  cached_tokens_ += usage.cached_tokens;
  generated_tokens_ += usage.completion_tokens;
}

void ServeMetrics::count_views(const ocellus_generate_stats& stats) {
  const std::lock_guard lock(mutex_);
  encoded_views_ += stats.encoded_views;
  known_views_ += stats.known_views;
}

void ServeMetrics::observe_queue(double seconds) {
  const std::lock_guard lock(mutex_);
  queue_.add(seconds);
}

void ServeMetrics::count_drafts(const ocellus_generate_stats& stats) {
  const std::lock_guard lock(mutex_);
  drafts_.add(stats);
}

void ServeMetrics::observe_first_token(double seconds) {
  const std::lock_guard lock(mutex_);
  first_token_.add(seconds);
}

void ServeMetrics::observe_next_token(double seconds) {
  const std::lock_guard lock(mutex_);
  next_token_.add(seconds);
}

void ServeMetrics::observe_request(double seconds) {
  const std::lock_guard lock(mutex_);
  request_.add(seconds);
}

void ServeMetrics::set_load(int64_t running, int64_t waiting, double cache_share) {
  const std::lock_guard lock(mutex_);
  running_ = running;
  waiting_ = waiting;
  cache_share_ = cache_share;
}

void ServeMetrics::set_sharing(const ocellus_engine_stats& stats) {
  const std::lock_guard lock(mutex_);
  sharing_ = stats;
}

void ServeMetrics::set_plan(const ocellus_plan& plan) {
  const std::lock_guard lock(mutex_);
  const auto real = [](int64_t bytes) { return static_cast<double>(bytes); };
  plan_bytes_ = {real(plan.weights_bytes), real(plan.session_bytes), real(plan.scratch_bytes),
                 real(plan.staging_bytes)};
  budget_bytes_ = real(plan.budget_bytes);
}

std::string ServeMetrics::text(const HttpCounts& http) const {
  const std::lock_guard lock(mutex_);
  const auto real = [](int64_t value) { return static_cast<double>(value); };
  PrometheusText out;
  for (const auto& [status, count] : requests_) {
    out.add_counter("ocellus_requests_total",
                    "Requests to the model by HTTP status; 499: the client left before the end.", real(count),
                    "code=\"" + std::to_string(status) + "\"");
  }
  for (const auto& [reason, count] : finishes_) {
    out.add_counter("ocellus_request_finished_total", "Requests for answers that ran on the engine, by stop reason.",
                    real(count), "finished_reason=\"" + reason + "\"");
  }
  out.add_gauge("ocellus_num_requests_running", "Requests that are being answered.", real(running_));
  out.add_gauge("ocellus_num_requests_waiting", "Requests in the queue.", real(waiting_));
  out.add_gauge("ocellus_kv_cache_usage_perc", "Share of the planned cache in use, 0 to 1.", cache_share_);
  out.add_plan(plan_bytes_, budget_bytes_);
  if (sharing_) {
    out.add_gauge("ocellus_shared_images_held", "Pictures on the device that conversations may link.",
                  real(sharing_->shared_images_held));
    out.add_gauge("ocellus_shared_images_used", "Pictures on the device that conversations link.",
                  real(sharing_->shared_images_used));
    out.add_gauge("ocellus_shared_image_links", "Links of conversations to them.", real(sharing_->shared_image_links));
    out.add_gauge("ocellus_shared_bytes_used", "Bytes of the linked pictures.", real(sharing_->shared_bytes_used));
    out.add_gauge("ocellus_shared_bytes_saved", "Additional bytes if every link were a copy of its own.",
                  real(sharing_->shared_bytes_saved));
    out.add_counter("ocellus_shared_image_hits_total", "Pictures linked that were on the device already.",
                    real(sharing_->shared_image_hits));
  }
  out.add_counter("ocellus_prompt_tokens_total", "Prompt tokens read, pictures included.", real(prompt_tokens_));
  out.add_counter("ocellus_prompt_tokens_cached_total",
                  "Prompt tokens that were not read again, as a session had read them before.", real(cached_tokens_));
  out.add_counter("ocellus_views_encoded_total", "Views of pictures that were encoded.", real(encoded_views_));
  out.add_counter("ocellus_views_known_total", "Views of pictures whose rows were kept (--kept-views).",
                  real(known_views_));
  out.add_counter("ocellus_generation_tokens_total", "Tokens generated.", real(generated_tokens_));
  drafts_.write(&out);
  out.add_histogram("ocellus_request_queue_time_seconds", "From a request's arrival to its session.", queue_);
  out.add_histogram("ocellus_time_to_first_token_seconds", "From a request's arrival to its first token.",
                    first_token_);
  out.add_histogram("ocellus_inter_token_latency_seconds", "Between two pieces of text of one answer.", next_token_);
  out.add_histogram("ocellus_e2e_request_latency_seconds", "From a request's arrival to its end.", request_);
  out.add_gauge("ocellus_http_connections", "Open connections.", real(http.connections));
  out.add_counter("ocellus_http_accepted_total", "Connections accepted.", real(http.accepted));
  out.add_counter("ocellus_http_requests_total", "HTTP requests of all kinds.", real(http.requests));
  out.add_counter("ocellus_http_shed_total", "Connections closed and requests refused because of a limit.",
                  real(http.shed));
  out.add_gauge("ocellus_http_body_bytes", "Bytes of request bodies in memory.", real(http.body_bytes));
  out.add_gauge("ocellus_http_bytes_limit", "Maximum bytes of HTTP, outside the memory plan.", real(most_http_bytes_));
  out.add_process();
  return out.text();
}

}  // namespace ocellus::app

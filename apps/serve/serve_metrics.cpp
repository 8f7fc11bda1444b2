#include "apps/serve/serve_metrics.h"

#include <algorithm>
#include <cstdio>

namespace ocellus {
namespace {

constexpr int kClientClosedRequest = 499;

std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

std::string head(const std::string& name, const std::string& type, const std::string& help) {
  return "# HELP " + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
}

std::string single(const std::string& name, const std::string& type, const std::string& help, double value) {
  return head(name, type, help) + name + " " + number(value) + "\n";
}

}  // namespace

void Histogram::observe(double seconds) {
  const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), seconds) - bounds_.begin();
  ++counts_[static_cast<size_t>(bucket)];
  sum_ += seconds;
}

std::string Histogram::text(const std::string& name, const std::string& help) const {
  std::string out = head(name, "histogram", help);
  int64_t total = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    total += counts_[i];
    const std::string bound = i < bounds_.size() ? number(bounds_[i]) : "+Inf";
    out += name + "_bucket{le=\"" + bound + "\"} " + std::to_string(total) + "\n";
  }
  return out + name + "_sum " + number(sum_) + "\n" + name + "_count " + std::to_string(total) + "\n";
}

ServeMetrics::ServeMetrics()
    : first_token_({0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}),
      next_token_({0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5}),
      request_({0.05, 0.1, 0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480}) {}

void ServeMetrics::count_request(int status) {
  const std::lock_guard lock(mutex_);
  ++requests_[status];
}

void ServeMetrics::count_finish(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  ++finishes_[reason];
  ++requests_[reason == "abort" ? kClientClosedRequest : 200];
}

void ServeMetrics::count_tokens(int64_t prompt, int64_t generated) {
  const std::lock_guard lock(mutex_);
  prompt_tokens_ += prompt;
  generated_tokens_ += generated;
}

void ServeMetrics::observe_first_token(double seconds) {
  const std::lock_guard lock(mutex_);
  first_token_.observe(seconds);
}

void ServeMetrics::observe_next_token(double seconds) {
  const std::lock_guard lock(mutex_);
  next_token_.observe(seconds);
}

void ServeMetrics::observe_request(double seconds) {
  const std::lock_guard lock(mutex_);
  request_.observe(seconds);
}

void ServeMetrics::set_load(int64_t running, int64_t waiting, double cache_share) {
  const std::lock_guard lock(mutex_);
  running_ = running;
  waiting_ = waiting;
  cache_share_ = cache_share;
}

std::string ServeMetrics::text(const HttpCounts& http) const {
  const std::lock_guard lock(mutex_);
  const auto real = [](int64_t value) { return static_cast<double>(value); };
  std::string out =
      head("ocellus_requests_total", "counter", "Chat requests by HTTP status; 499: the client left before the end.");
  for (const auto& [status, count] : requests_) {
    out += "ocellus_requests_total{code=\"" + std::to_string(status) + "\"} " + std::to_string(count) + "\n";
  }
  out += head("ocellus_request_finished_total", "counter", "Chat requests that got an engine, by why they ended.");
  for (const auto& [reason, count] : finishes_) {
    out += "ocellus_request_finished_total{finished_reason=\"" + reason + "\"} " + std::to_string(count) + "\n";
  }
  out += single("ocellus_num_requests_running", "gauge", "Requests that are being answered.", real(running_));
  out += single("ocellus_num_requests_waiting", "gauge", "Requests in the queue.", real(waiting_));
  out += single("ocellus_kv_cache_usage_perc", "gauge", "Share of the planned cache in use, 0 to 1.", cache_share_);
  out +=
      single("ocellus_prompt_tokens_total", "counter", "Prompt tokens read, pictures included.", real(prompt_tokens_));
  out += single("ocellus_generation_tokens_total", "counter", "Tokens generated.", real(generated_tokens_));
  out += first_token_.text("ocellus_time_to_first_token_seconds", "From a request's arrival to its first token.");
  out += next_token_.text("ocellus_inter_token_latency_seconds", "Between two pieces of text of one answer.");
  out += request_.text("ocellus_e2e_request_latency_seconds", "From a request's arrival to its end.");
  out += single("ocellus_http_connections", "gauge", "Open connections.", real(http.connections));
  out += single("ocellus_http_accepted_total", "counter", "Connections accepted.", real(http.accepted));
  out += single("ocellus_http_requests_total", "counter", "HTTP requests of all kinds.", real(http.requests));
  out += single("ocellus_http_shed_total", "counter", "Connections closed and requests refused because of a bound.",
                real(http.shed));
  return out;
}

}  // namespace ocellus

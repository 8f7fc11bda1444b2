// Metrics in Prometheus' text format (version 0.0.4).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ocellus::app {

// Histogram of seconds. Not thread-safe.
class Histogram {
 public:
  // Bounds from a millisecond to a minute.
  static constexpr std::array<double, 15> kBounds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                                     0.5,   1,      2.5,   5,    10,    25,   60};
  // `bounds` are the buckets' upper bounds, rising; they must outlive the histogram. Larger values are counted in an
  // extra bucket.
  explicit Histogram(std::span<const double> bounds = kBounds) : bounds_(bounds), counts_(bounds.size() + 1) {}
  void add(double seconds);

 private:
  friend class PrometheusText;
  std::span<const double> bounds_;
  std::vector<int64_t> counts_;  // per bucket
  double sum_ = 0;
};

class PrometheusText {
 public:
  // `labels` as written between braces, `state="dropped"`; empty for none. Add samples of one name one after the other.
  void add_gauge(std::string_view name, std::string_view help, double value, std::string_view labels = "");
  void add_counter(std::string_view name, std::string_view help, double value, std::string_view labels = "");
  void add_histogram(std::string_view name, std::string_view help, const Histogram& histogram);
  // Adds the bytes of the memory plan by lifetime (weights, session, scratch, staging) and its budget, unless that is
  // 0.
  void add_plan(const std::array<double, 4>& bytes, double budget_bytes);
  // Adds the standard process metrics: resident bytes, open files, CPU seconds.
  void add_process();
  const std::string& text() const { return text_; }

 private:
  void begin(std::string_view name, std::string_view help, std::string_view type);
  void add_sample(std::string_view name, std::string_view labels, double value);

  std::string text_;
  std::string last_name_;
};

inline constexpr char kPrometheusType[] = "text/plain; version=0.0.4; charset=utf-8";

// Returns the process's resident memory; 0 where /proc is missing.
int64_t resident_bytes();

}  // namespace ocellus::app

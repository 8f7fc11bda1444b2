#include "apps/base/prometheus.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace ocellus::app {
namespace {

std::string format_value(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.15g", value);
  return text;
}

int64_t open_file_count() {
  DIR* folder = opendir("/proc/self/fd");
  if (folder == nullptr) return 0;
  int64_t count = -3;  // ".", ".." and the folder itself
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

}  // namespace

void Histogram::add(double seconds) {
  const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), seconds) - bounds_.begin();
  ++counts_[static_cast<size_t>(bucket)];
  sum_ += seconds;
}

void PrometheusText::begin(std::string_view name, std::string_view help, std::string_view type) {
  if (last_name_ == name) return;
  last_name_ = name;
  text_.append("# HELP ").append(name).append(" ").append(help).append("\n");
  text_.append("# TYPE ").append(name).append(" ").append(type).append("\n");
}

void PrometheusText::add_sample(std::string_view name, std::string_view labels, double value) {
  text_.append(name);
  if (!labels.empty()) text_.append("{").append(labels).append("}");
  text_.append(" ").append(format_value(value)).append("\n");
}

void PrometheusText::add_gauge(std::string_view name, std::string_view help, double value, std::string_view labels) {
  begin(name, help, "gauge");
  add_sample(name, labels, value);
}

void PrometheusText::add_counter(std::string_view name, std::string_view help, double value, std::string_view labels) {
  begin(name, help, "counter");
  add_sample(name, labels, value);
}

void PrometheusText::add_histogram(std::string_view name, std::string_view help, const Histogram& histogram) {
  begin(name, help, "histogram");
  const std::string bucket = std::string(name) + "_bucket";
  int64_t total = 0;
  for (size_t i = 0; i < histogram.counts_.size(); ++i) {
    total += histogram.counts_[i];
    const std::string bound = i < histogram.bounds_.size() ? format_value(histogram.bounds_[i]) : "+Inf";
    add_sample(bucket, "le=\"" + bound + "\"", static_cast<double>(total));
  }
  add_sample(std::string(name) + "_sum", "", histogram.sum_);
  add_sample(std::string(name) + "_count", "", static_cast<double>(total));
}

void PrometheusText::add_plan(const std::array<double, 4>& bytes, double budget_bytes) {
  constexpr const char* kLifetimes[] = {"weights", "session", "scratch", "staging"};
  for (size_t i = 0; i < bytes.size(); ++i) {
    add_gauge("ocellus_plan_bytes", "The memory plan by lifetime.", bytes[i],
              std::string("lifetime=\"") + kLifetimes[i] + "\"");
  }
  if (budget_bytes > 0) add_gauge("ocellus_budget_bytes", "The budget of the memory plan.", budget_bytes);
}

void PrometheusText::add_process() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  add_gauge("process_resident_memory_bytes", "Resident memory.", static_cast<double>(resident_bytes()));
  add_gauge("process_open_fds", "Open file descriptors.", static_cast<double>(open_file_count()));
  add_counter("process_cpu_seconds_total", "CPU time of all threads.",
              seconds(usage.ru_utime) + seconds(usage.ru_stime));
}

int64_t resident_bytes() {
  std::FILE* file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr) return 0;
  long long total = 0, resident = 0;
  const int found = std::fscanf(file, "%lld %lld", &total, &resident);
  std::fclose(file);
  return found == 2 ? resident * sysconf(_SC_PAGESIZE) : 0;
}

}  // namespace ocellus::app

#include "apps/prometheus.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>

namespace ocellus {
namespace {

std::string format_value(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.10g", value);
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
  for (size_t i = 0; i < kBounds.size(); ++i) at_most_[i] += seconds <= kBounds[i] ? 1 : 0;
  ++count_;
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
  for (size_t i = 0; i < Histogram::kBounds.size(); ++i) {
    add_sample(bucket, "le=\"" + format_value(Histogram::kBounds[i]) + "\"",
               static_cast<double>(histogram.at_most_[i]));
  }
  add_sample(bucket, "le=\"+Inf\"", static_cast<double>(histogram.count_));
  add_sample(std::string(name) + "_sum", "", histogram.sum_);
  add_sample(std::string(name) + "_count", "", static_cast<double>(histogram.count_));
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

}  // namespace ocellus

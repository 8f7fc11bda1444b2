// AnswerEvents: what a watch does with answers in JSON.
#pragma once

#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "apps/base/prometheus.h"
#include "apps/watch/condition.h"
#include "apps/watch/errands.h"
#include "apps/watch/record.h"
#include "apps/watch/watch_events.h"

namespace ocellus::app {

struct AnswerEventOptions {
  std::vector<std::string> metrics;  // fields
  std::optional<Condition> condition;
  std::map<std::string, Errand> errands;  // by name: "run"
};

class AnswerEvents {
 public:
  // Both must outlive this object.
  AnswerEvents(const AnswerEventOptions& options, WatchEvents* events);

  // Used by the loop only: take() does not wait, finish() does for errands.
  void take(const Record& record);
  void finish();

  // Thread-safe:
  nlohmann::ordered_json state() const;  // with a condition
  void add_metrics(PrometheusText* text) const;

 private:
  // One errand at a time, on a thread of its own; later ones are dropped.
  struct Running {
    std::future<std::string> under_way;
    std::map<std::string, int64_t> counts = {{"done", 0}, {"failed", 0}, {"dropped", 0}};
    bool is_failing = false;
  };
  void settle();  // takes the results of what has ended
  void follow_condition(const Record& record);
  void tell_missing(const std::string& flag, const std::string& what, int64_t id);  // once
  void begin_event(const Record& record);

  const AnswerEventOptions& options_;
  WatchEvents* events_;
  bool was_true_ = false;
  std::set<std::string> told_;
  mutable std::mutex mutex_;  // guards the members below
  std::map<std::string, double> values_;
  int64_t count_ = 0;
  std::map<std::string, Running> running_;
};

}  // namespace ocellus::app

#include "apps/watch/answer_events.h"

#include "apps/setup/answer.h"

namespace ocellus::app {

using Json = nlohmann::ordered_json;

AnswerEvents::AnswerEvents(const AnswerEventOptions& options, WatchEvents* events)
    : options_(options), events_(events) {
  for (const auto& [name, errand] : options_.errands) running_[name];
}

void AnswerEvents::take(const Record& record) {
  const std::lock_guard lock(mutex_);
  settle();
  values_.clear();
  for (const std::string& field : options_.metrics) {
    const auto value = find_value(record.answer, field);
    if (value && (value->is_number() || value->is_boolean())) {
      values_[field] = value->get<double>();
    } else if (!record.answer.is_null()) {
      tell_missing("--metric", "number " + field, record.id);
    }
  }
  if (options_.condition && !record.answer.is_null()) follow_condition(record);
}

void AnswerEvents::follow_condition(const Record& record) {
  std::string missing;
  const bool is_true = options_.condition->holds_in(record.answer, &missing);
  if (is_true && !was_true_) begin_event(record);
  was_true_ = is_true;
  if (!missing.empty()) tell_missing("--on", missing, record.id);
}

void AnswerEvents::tell_missing(const std::string& flag, const std::string& what, int64_t id) {
  if (!told_.insert(flag + what).second) return;
  events_->note("warning", flag + ": answer " + std::to_string(id) + " has no " + what + ".");
}

void AnswerEvents::begin_event(const Record& record) {
  ++count_;
  const std::string& condition = options_.condition->text();
  events_->note("information", condition + ": true in answer " + std::to_string(record.id) + ".");
  const Json report = {{"condition", condition},
                       {"id", record.id},
                       {"sequence", record.sequence},
                       {"at_ms", record.at_ms},
                       {"answer", record.answer}};
  const AnswerEvent event = {json_line(record.answer), json_line(report), record.id, record.sequence, record.at_ms};
  for (auto& [name, running] : running_) {
    try {
      if (running.under_way.valid())
        ++running.counts["dropped"];
      else
        running.under_way = std::async(std::launch::async, options_.errands.at(name), event);
    } catch (const std::system_error&) {
      ++running.counts["failed"];
    }
  }
}

void AnswerEvents::settle() {
  for (auto& [name, running] : running_) {
    std::future<std::string>& result = running.under_way;
    if (!result.valid() || result.wait_for(std::chrono::seconds(0)) != std::future_status::ready) continue;
    const std::string why = result.get();
    ++running.counts[why.empty() ? "done" : "failed"];
    if (!why.empty() && !running.is_failing) events_->note("warning", "--" + name + ": " + why + ".");
    running.is_failing = !why.empty();
  }
}

void AnswerEvents::finish() {
  for (auto& [name, running] : running_) {
    if (running.under_way.valid()) running.under_way.wait();  // without the lock: metrics do not wait
  }
  const std::lock_guard lock(mutex_);
  settle();
}

Json AnswerEvents::state() const {
  const std::lock_guard lock(mutex_);
  Json state = {{"condition", options_.condition->text()}, {"count", count_}};
  for (const auto& [name, running] : running_) state[name] = running.counts;
  return state;
}

void AnswerEvents::add_metrics(PrometheusText* text) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [field, value] : values_) {
    text->add_gauge("ocellus_answer_value", "Numbers of the newest answer.", value, "field=\"" + field + "\"");
  }
  if (!options_.condition) return;
  text->add_counter("ocellus_events_total", "Times that the condition became true.", static_cast<double>(count_));
  for (const auto& [name, running] : running_) {
    for (const auto& [outcome, count] : running.counts) {
      text->add_counter("ocellus_errands_total", "What events set off.", static_cast<double>(count),
                        "errand=\"" + name + "\",outcome=\"" + outcome + "\"");
    }
  }
}

}  // namespace ocellus::app

// The state that a watcher publishes, and the settings that it accepts.
#include <algorithm>
#include <cmath>

#include "apps/base/failure.h"
#include "apps/base/sizes.h"
#include "apps/setup/answer.h"
#include "apps/watch/watch_settings.h"
#include "apps/watch/watcher.h"

namespace ocellus::app {
namespace {

using Json = nlohmann::ordered_json;

constexpr int32_t kMaxFrames = 64;
constexpr size_t kMaxPromptBytes = 2000;

// Returns the quantile `share` of the sorted values.
double quantile(const std::vector<double>& sorted, double share) {
  const auto at = static_cast<size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::min(sorted.size() - 1, at > 0 ? at - 1 : 0)];
}

int32_t most_frames(const ocellus_model_facts& facts, int64_t answer_tokens) {
  if (facts.context_length <= 0 || facts.tokens_per_view <= 0) return kMaxFrames;
  const int64_t rows = facts.context_length - kMaxPromptTokens - answer_tokens;
  return static_cast<int32_t>(std::clamp<int64_t>(rows / (facts.tokens_per_view + 40), 1, kMaxFrames));
}

}  // namespace

Json Watcher::state() const {
  const std::lock_guard lock(mutex_);
  Json state = state_;
  const WatchSettings wanted = control_.settings();
  state["settings"] = settings_json(wanted);
  state["settings_pending"] = !wanted.same_engine(settings_);
  return state;
}

Json Watcher::latency_state() const {
  Json latency = {{"last", nullptr}, {"mean", nullptr}, {"p95", nullptr}, {"p99", nullptr}, {"age_last", nullptr}};
  if (latencies_ms_.empty()) return latency;
  std::vector<double> sorted(latencies_ms_.begin(), latencies_ms_.end());
  std::sort(sorted.begin(), sorted.end());
  double sum = 0;
  for (const double value : sorted) sum += value;
  latency["last"] = latencies_ms_.back();
  latency["mean"] = sum / static_cast<double>(sorted.size());
  latency["p95"] = quantile(sorted, 0.95);
  latency["p99"] = quantile(sorted, 0.99);
  latency["age_last"] = last_age_ms_;
  return latency;
}

Json Watcher::memory_state() const {
  const ocellus_plan& plan = narrator_->running().plan;
  const ocellus_engine_stats engine = narrator_->running().engine_stats();
  const ocellus_generate_stats& last = last_stats_;
  const double bits = last.kv_block_elements > 0
                          ? 8.0 * static_cast<double>(last.kv_block_bytes) / static_cast<double>(last.kv_block_elements)
                          : settings_.kv_bits;
  return {{"budget_bytes", plan.budget_bytes},
          {"total_bytes", plan.total_bytes},
          {"weights_bytes", plan.weights_bytes},
          {"session_bytes", plan.session_bytes},
          {"scratch_bytes", plan.scratch_bytes},
          {"staging_bytes", plan.staging_bytes},
          {"session_used_bytes", engine.session_high_water_bytes},
          {"outside_bytes", engine.outside_bytes_now},
          {"images_held", narrator_->memory().held()},
          {"images_most", settings_.frames},
          {"frame_bytes", narrator_->memory().frame_bytes()},
          {"kv_bytes", last.kv_bytes},
          {"kv_bytes_full", last.kv_bytes_full},
          {"kv_bits", bits},
          {"rss_bytes", resident_bytes()}};
}

Json Watcher::make_state() const {
  const CaptureStatus source = capture_->status();
  const ocellus_limits& limits = narrator_->running().limits;
  const bool on_gpu = runs_on_gpu(narrator_->options());
  Json state = {{"version", ocellus_version()},
                {"uptime_s", static_cast<double>(monotonic_ns() - started_ns_) / 1e9},
                {"started_ms", wall_ms(started_ns_)},
                {"model",
                 {{"name", model_.facts.name},
                  {"format", model_.facts.weight_format},
                  {"device", on_gpu ? "GPU " + std::to_string(limits.device_index) : "CPU"}}},
                {"source",
                 {{"name", options_.capture.source.name},
                  {"posted", inbox() != nullptr},
                  {"state", source_state_name(source.state)},
                  {"format", source.format},
                  {"trouble", source.trouble},
                  {"width", source.width},
                  {"height", source.height},
                  {"fps", source.frames_per_second}}},
                {"frames",
                 {{"captured", source.captured},
                  {"dropped", source.dropped},
                  {"skipped", source.skipped},
                  {"unchanged", counts_.unchanged},
                  {"broken", source.broken},
                  {"answered", counts_.answered},
                  {"failed", counts_.failed},
                  {"deadline_missed", counts_.deadline_missed},
                  {"stalls", source.stalls},
                  {"losses", source.losses},
                  {"size_changes", source.size_changes}}},
                {"latency_ms", latency_state()},
                {"settings", settings_json(settings_)},
                {"limits",
                 {{"frames_most", most_frames(model_.facts, options_.narrator.common.answer_tokens)},
                  {"kv_bits", kSettingBits},
                  {"prompt_bytes", kMaxPromptBytes}}},
                {"memory", memory_state()},
                {"settings_pending", !control_.settings().same_engine(settings_)}};
  if (history_) state["history"] = {{"bytes", history_->bytes()}, {"trouble", history_trouble_}};
  return state;
}

std::string Watcher::trouble() const {
  const CaptureStatus source = capture_->status();
  if (source.state == SourceState::kRunning) return "";
  return source.trouble.empty() ? std::string("the source is ") + source_state_name(source.state) : source.trouble;
}

void Watcher::check_text(const std::string& text) const {
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) throw Failure(kExitUsage, "the text is empty.");
  if (text.size() > kMaxPromptBytes) {
    throw Failure(kExitUsage, "the text has " + std::to_string(text.size()) + " bytes, more than the " +
                                  std::to_string(kMaxPromptBytes) + " that are taken.");
  }
  int32_t tokens = 0;
  check(ocellus_model_count_tokens(model_.get(), text.data(), static_cast<int64_t>(text.size()), 0, &tokens));
  if (tokens > kMaxPromptTokens - 32) {
    throw Failure(kExitUsage, "the text has " + std::to_string(tokens) + " tokens, more than the " +
                                  std::to_string(kMaxPromptTokens - 32) + " that are planned.");
  }
}

WatchSettings Watcher::merge(const Json& changes) const {
  const WatchSettings before = control_.settings();
  const int32_t most = most_frames(model_.facts, options_.narrator.common.answer_tokens);
  const WatchSettings settings =
      merge_settings(changes, before, most, [this](const std::string& text) { check_text(text); });
  if (!settings.same_engine(before)) Narrator::plan(model_, narrator_options(), settings);
  return settings;
}

std::string Watcher::metrics() const {
  PrometheusText text;
  const CaptureStatus source = capture_->status();
  const std::lock_guard lock(mutex_);
  const auto frames = [&text](const char* what, int64_t count) {
    text.add_counter("ocellus_frames_total", "Frames by outcome.", static_cast<double>(count),
                     std::string("state=\"") + what + "\"");
  };
  frames("captured", source.captured);
  frames("dropped", source.dropped);
  frames("skipped", source.skipped);
  frames("broken", source.broken);
  frames("unchanged", counts_.unchanged);
  frames("answered", counts_.answered);
  frames("failed", counts_.failed);
  frames("deadline_missed", counts_.deadline_missed);
  text.add_counter("ocellus_source_stalls_total", "Stalls of the source.", static_cast<double>(source.stalls));
  text.add_counter("ocellus_source_losses_total", "Losses of the source.", static_cast<double>(source.losses));
  text.add_gauge("ocellus_source_up", "1 while frames arrive.", source.state == SourceState::kRunning ? 1 : 0);
  text.add_counter("ocellus_questions_total", "Questions about frames in memory.",
                   static_cast<double>(counts_.questions));
  text.add_counter("ocellus_engine_restarts_total", "After failures of the device.",
                   static_cast<double>(counts_.restarts));
  text.add_counter("ocellus_generation_tokens_total", "Tokens of captions.", static_cast<double>(counts_.tokens));
  text.add_histogram("ocellus_time_to_first_token_seconds",
                     "From a frame's preprocessing to its caption's first token.", first_token_);
  text.add_histogram("ocellus_inter_token_latency_seconds", "Mean of a caption's tokens after the first.", token_);
  text.add_histogram("ocellus_frame_latency_seconds", "From the beginning of a frame's work to its end.", work_);
  text.add_histogram("ocellus_frame_age_seconds", "From a frame's capture to the end of its caption.", age_);
  if (state_.contains("memory")) {
    const Json& memory = state_["memory"];
    for (const char* part : {"weights", "session", "scratch", "staging"}) {
      text.add_gauge("ocellus_plan_bytes", "The memory plan by lifetime.",
                     memory[std::string(part) + "_bytes"].get<double>(), std::string("lifetime=\"") + part + "\"");
    }
    text.add_gauge("ocellus_kv_cache_bytes", "Keys and values after the last caption.",
                   memory["kv_bytes"].get<double>());
    text.add_gauge("ocellus_images_held", "Frames in memory for questions.", memory["images_held"].get<double>());
    text.add_gauge("kv_cache_usage_perc", "Maximum use of the plan's session rows so far, 0 to 1.",
                   memory["session_used_bytes"].get<double>() / std::max(1.0, memory["session_bytes"].get<double>()));
  }
  text.add_process();
  return text.text();
}

}  // namespace ocellus::app

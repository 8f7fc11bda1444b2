#include "apps/watch/watch_engine.h"

#include <algorithm>
#include <optional>

#include "apps/base/failure.h"
#include "apps/watch/watch_settings.h"

namespace ocellus::app {
namespace {

using Json = nlohmann::ordered_json;

constexpr int32_t kMaxFrames = 64;
constexpr size_t kMaxPromptBytes = 2000;

}  // namespace

WatchEngine::WatchEngine(const Model& model, const NarratorOptions& options, const WatchSettings& settings)
    : model_(model), options_(options), settings_(settings) {
  if (options_.image_pixels == 0) options_.image_pixels = kScreenPixels;
  Narrator::plan(model_, options_, settings_);
}

void WatchEngine::start() { narrator_ = std::make_unique<Narrator>(model_, options_, settings_); }

void WatchEngine::remake(const WatchSettings& settings) {
  Narrator::plan(model_, options_, settings);
  std::optional<FrameMemory> frames;
  if (narrator_) frames.emplace(std::move(narrator_->memory()));
  narrator_.reset();  // two at a time would not fit the budget
  narrator_ = std::make_unique<Narrator>(model_, options_, settings);
  if (frames) narrator_->memory().inherit(std::move(*frames));
  use(settings);
}

void WatchEngine::use(const WatchSettings& settings) {
  const std::lock_guard lock(mutex_);
  settings_ = settings;
}

void WatchEngine::fit(const Frame& frame) {
  NarratorOptions larger = options_;
  larger.image_pixels = std::max(options_.image_pixels, int64_t{frame.width} * frame.height);
  const int32_t side = std::max(frame.width, frame.height);
  const int64_t whole = frame.kind == FrameKind::kEncoded ? frame.whole_pixels : 0;
  const bool is_longer = !options_.common.pictures.side && side > std::max(options_.image_side, kUsualSide);
  const bool is_whole = !options_.common.pictures.whole_pixels && whole > options_.whole_pixels.value_or(kScreenPixels);
  if (larger.image_pixels == options_.image_pixels && !is_longer && !is_whole) return;
  if (is_longer) larger.image_side = side;
  if (is_whole) larger.whole_pixels = whole;
  Narrator::plan(model_, larger, settings_);
  {
    const std::lock_guard lock(mutex_);
    options_ = larger;
  }
  remake(settings_);
}

bool WatchEngine::serves(const WatchSettings& settings) const {
  const std::lock_guard lock(mutex_);
  return settings.same_engine(settings_);
}

int32_t WatchEngine::max_frames() const {
  const ocellus_model_facts& facts = model_.facts;
  if (facts.context_length <= 0 || facts.tokens_per_view <= 0) return kMaxFrames;
  const int64_t rows = facts.context_length - kMaxPromptTokens - options_.common.params.max_tokens -
                       most_thought_tokens(facts, options_.common);
  const int32_t image_positions = facts.any_image_size != 0 ? 1 : facts.tokens_per_view;
  const int64_t frames = rows / (image_positions + 40) * std::max(options_.clips.group, 1);
  return static_cast<int32_t>(std::clamp<int64_t>(frames, 1, kMaxFrames));
}

WatchSettings WatchEngine::merge(const Json& changes, const WatchSettings& before) const {
  const WatchSettings settings =
      merge_settings(changes, before, max_frames(), [this](const std::string& text) { check_text(text); });
  if (settings.same_engine(before)) return settings;
  std::unique_lock lock(mutex_);
  const NarratorOptions options = options_;
  lock.unlock();
  Narrator::plan(model_, options, settings);
  return settings;
}

void WatchEngine::check_text(const std::string& text) const {
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) throw Failure(kExitUsage, "the text is empty.");
  if (text.size() > kMaxPromptBytes) {
    throw Failure(kExitUsage, "the text has " + std::to_string(text.size()) + " bytes, more than the " +
                                  std::to_string(kMaxPromptBytes) + " that are taken.");
  }
  const int32_t tokens = take(model_.count_tokens(text));
  if (tokens > kMaxPromptTokens - 32) {
    throw Failure(kExitUsage, "the text has " + std::to_string(tokens) + " tokens, more than the " +
                                  std::to_string(kMaxPromptTokens - 32) + " that are planned.");
  }
}

Json WatchEngine::limits_state() const {
  return {{"frames_most", max_frames()}, {"kv_bits", kSettingBits}, {"prompt_bytes", kMaxPromptBytes}};
}

Json WatchEngine::model_state() const {
  const int32_t device = narrator_->running().limits.device_index;
  return {{"name", model_.facts.name},
          {"format", model_.facts.weight_format},
          {"device", runs_on_gpu(narrator_->options()) ? "GPU " + std::to_string(device) : "CPU"}};
}

Json WatchEngine::memory_state(const ocellus_generate_stats& last, int64_t other_frame_bytes) const {
  const ocellus_plan& plan = narrator_->running().plan;
  const ocellus_engine_stats engine = narrator_->running().engine_stats();
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
          {"frame_bytes", narrator_->memory().frame_bytes() + other_frame_bytes},
          {"kv_bytes", last.kv_bytes},
          {"kv_bytes_full", last.kv_bytes_full},
          {"kv_bits", bits},
          {"rss_bytes", resident_bytes()}};
}

void add_memory_metrics(const Json& memory, PrometheusText* text) {
  const auto bytes = [&memory](const char* part) { return memory[part].get<double>(); };
  text->add_plan({bytes("weights_bytes"), bytes("session_bytes"), bytes("scratch_bytes"), bytes("staging_bytes")},
                 bytes("budget_bytes"));
  text->add_gauge("ocellus_kv_cache_bytes", "Keys and values after the last caption.",
                  memory["kv_bytes"].get<double>());
  text->add_gauge("ocellus_images_held", "Frames in memory for questions.", memory["images_held"].get<double>());
  text->add_gauge("kv_cache_usage_perc", "Maximum use of the plan's session rows so far, 0 to 1.",
                  memory["session_used_bytes"].get<double>() / std::max(1.0, memory["session_bytes"].get<double>()));
}

}  // namespace ocellus::app

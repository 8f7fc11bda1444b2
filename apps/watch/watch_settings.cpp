#include "apps/watch/watch_settings.h"

#include <algorithm>
#include <cmath>

#include "apps/base/failure.h"
#include "apps/base/sizes.h"

namespace ocellus::app {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMaxSeconds = 3600;
constexpr int64_t kMaxDeadlineMs = 600000;

double number_between(const Json& value, const std::string& name, double low, double high) {
  const double number = value.is_number() ? value.get<double>() : std::nan("");
  if (!(number >= low && number <= high)) {
    throw Failure(kExitUsage,
                  name + " must be a number from " + format_number(low, 0) + " to " + format_number(high, 0) + ".");
  }
  return number;
}

int64_t whole_number_between(const Json& value, const std::string& name, int64_t low, int64_t high) {
  const double number = value.is_number() ? value.get<double>() : std::nan("");
  if (!(number >= static_cast<double>(low) && number <= static_cast<double>(high)) || number != std::floor(number)) {
    throw Failure(kExitUsage,
                  name + " must be a whole number from " + std::to_string(low) + " to " + std::to_string(high) + ".");
  }
  return static_cast<int64_t>(number);
}

}  // namespace

Json settings_json(const WatchSettings& settings) {
  return {{"prompt", settings.prompt}, {"every_s", settings.every_s},        {"change", settings.change},
          {"frames", settings.frames}, {"kv_bits", settings.kv_bits},        {"keep", settings.keep},
          {"paused", settings.paused}, {"deadline_ms", settings.deadline_ms}};
}

WatchSettings merge_settings(const Json& changes, WatchSettings settings, int32_t most_frames,
                             const std::function<void(const std::string&)>& check_text) {
  if (!changes.is_object()) throw Failure(kExitUsage, "the settings must be a JSON object.");
  for (const auto& [name, value] : changes.items()) {
    if (name == "prompt") {
      if (!value.is_string()) throw Failure(kExitUsage, "prompt must be a string.");
      check_text(settings.prompt = value.get<std::string>());
    } else if (name == "every_s") {
      settings.every_s = number_between(value, name, 0, kMaxSeconds);
    } else if (name == "change") {
      settings.change = number_between(value, name, 0, 1);
    } else if (name == "deadline_ms") {
      settings.deadline_ms = whole_number_between(value, name, 0, kMaxDeadlineMs);
    } else if (name == "frames") {
      settings.frames = static_cast<int32_t>(whole_number_between(value, name, 1, most_frames));
    } else if (name == "keep") {
      settings.keep = static_cast<float>(number_between(value, name, 0, 1));
      if (settings.keep < 0.01f) throw Failure(kExitUsage, "keep must be at least 0.01.");
    } else if (name == "kv_bits") {
      settings.kv_bits = static_cast<int32_t>(whole_number_between(value, name, 1, 16));
      if (std::find(kSettingBits.begin(), kSettingBits.end(), settings.kv_bits) == kSettingBits.end()) {
        throw Failure(kExitUsage, "kv_bits must be 16, 8, 4, 2 or 1.");
      }
    } else if (name == "paused") {
      if (!value.is_boolean()) throw Failure(kExitUsage, "paused must be true or false.");
      settings.paused = value.get<bool>();
    } else {
      throw Failure(kExitUsage, name + " is no setting: there are prompt, every_s, change, deadline_ms, frames, " +
                                    "kv_bits, keep and paused.");
    }
  }
  return settings;
}

}  // namespace ocellus::app

// Settings of a running watch as JSON, as a page or a terminal sends them, fully validated.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>

#include "apps/watch/watch_control.h"

namespace ocellus::app {

inline constexpr std::initializer_list<int32_t> kSettingBits = {16, 8, 4, 2, 1};

nlohmann::ordered_json settings_json(const WatchSettings& settings);

// Returns the settings with the changes of a JSON object. `check_text` throws a Failure for a prompt that the model
// cannot take. Throws a Failure that names the setting.
WatchSettings merge_settings(const nlohmann::ordered_json& changes, WatchSettings settings, int32_t most_frames,
                             const std::function<void(const std::string&)>& check_text);

}  // namespace ocellus::app

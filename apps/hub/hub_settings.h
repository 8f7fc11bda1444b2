// Variables of the environment that the hub's own tools read, and this program with them.
#pragma once

#include <cstdint>
#include <string>

namespace ocellus::app {

struct HubSettings {
  std::string endpoint;  // HF_ENDPOINT, without a slash at its end
  std::string cache;     // HF_HUB_CACHE, or hub/ below HF_HOME, or below the user's folder of caches
  std::string token;     // HF_TOKEN, or the file that a login left; empty: none
  bool offline = false;  // HF_HUB_OFFLINE
  int32_t stall_s = 30;  // HF_HUB_DOWNLOAD_TIMEOUT: a connection without bytes for so long is cut
};

// Throws a Failure for values that are none: an endpoint that is no URL, a token with spaces or line breaks inside.
HubSettings read_hub_settings();

}  // namespace ocellus::app

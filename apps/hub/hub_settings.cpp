#include "apps/hub/hub_settings.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <iterator>

#include "apps/base/failure.h"

namespace ocellus::app {
namespace {

constexpr size_t kMostTokenBytes = 4096;
constexpr int32_t kMostStallSeconds = 24 * 3600;

// The first of these variables that has a value; empty: none has.
std::string variable(std::initializer_list<const char*> names) {
  for (const char* const name : names) {
    const char* const value = std::getenv(name);
    if (value != nullptr && value[0] != '\0') return value;
  }
  return "";
}

bool is_true(const std::string& value) { return lists_word("1 on yes true", to_lower(value)) && !value.empty(); }

std::string home() {
  const std::string folder = variable({"HOME"});
  if (folder.empty()) throw Failure(kExitUsage, "HOME is not set: name the cache of models with HF_HOME.");
  return folder;
}

// A folder whose "~" a shell did not replace.
std::string folder(const std::string& path) {
  return path == "~" || path.starts_with("~/") ? home() + path.substr(1) : path;
}

std::string hub_home() {
  const std::string own = variable({"HF_HOME"});
  if (!own.empty()) return folder(own);
  const std::string caches = variable({"XDG_CACHE_HOME"});
  return (caches.empty() ? home() + "/.cache" : folder(caches)) + "/huggingface";
}

std::string read_token() {
  std::string token = trim(variable({"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"})), source = "HF_TOKEN";
  if (is_true(variable({"HF_HUB_DISABLE_IMPLICIT_TOKEN"}))) return "";
  if (token.empty()) {
    const std::string own = variable({"HF_TOKEN_PATH"});
    source = own.empty() ? hub_home() + "/token" : folder(own);
    std::ifstream file(source);
    std::string text(kMostTokenBytes + 1, '\0');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<size_t>(file.gcount()));
    token = trim(text);
  }
  const auto is_bad = [](char c) {
    return static_cast<unsigned char>(c) <= 0x20 || static_cast<unsigned char>(c) > 0x7E;
  };
  if (token.size() > kMostTokenBytes || std::any_of(token.begin(), token.end(), is_bad))
    throw Failure(kExitUsage, source + ": a token is one word of letters and digits, and this is none.");
  return token;
}

std::string read_endpoint() {
  std::string url = variable({"HF_ENDPOINT"});
  if (url.empty()) return "https://huggingface.co";
  while (url.ends_with('/')) url.pop_back();
  const auto is_bad = [](char c) { return static_cast<unsigned char>(c) <= 0x20; };
  const bool has_scheme = url.starts_with("https://") || url.starts_with("http://");
  if (!has_scheme || url.size() <= url.find("://") + 3 || std::any_of(url.begin(), url.end(), is_bad))
    throw Failure(kExitUsage, "HF_ENDPOINT " + shorten(url) + ": write the hub's address, as in https://hub.example.");
  return url;
}

int32_t read_stall_seconds() {
  const std::string text = variable({"HF_HUB_DOWNLOAD_TIMEOUT"});
  if (text.empty()) return HubSettings().stall_s;
  const bool is_number =
      text.size() <= 5 && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  const int32_t seconds = is_number ? std::atoi(text.c_str()) : 0;
  if (seconds < 1 || seconds > kMostStallSeconds)
    throw Failure(kExitUsage, "HF_HUB_DOWNLOAD_TIMEOUT " + shorten(text) + ": write seconds, 1 to 86400.");
  return seconds;
}

}  // namespace

HubSettings read_hub_settings() {
  HubSettings settings;
  settings.endpoint = read_endpoint();
  const std::string cache = variable({"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"});
  settings.cache = cache.empty() ? hub_home() + "/hub" : folder(cache);
  settings.offline = is_true(variable({"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"}));
  settings.token = read_token();
  settings.stall_s = read_stall_seconds();
  return settings;
}

}  // namespace ocellus::app

// Requests to a hub, by libcurl, which is loaded when the first is made. Proxies are those that libcurl reads from the
// environment: https_proxy, http_proxy, all_proxy and no_proxy.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "apps/hub/hub_settings.h"

namespace ocellus::app {

struct WebAnswer {
  int status = 0;            // HTTP status after redirects; 0: no answer came
  int64_t begin = 0;         // first byte of a part (206)
  int64_t total_bytes = -1;  // size of the whole file by the headers; -1: unknown
  int64_t retry_after_s = 0;
  std::string error_code, error_message;  // the hub's own, of a refusal
  std::string problem;                    // says why the connection failed or was cut; empty: it did not
  bool was_connected = false;             // else nothing was reached at all
  bool is_final = false;                  // another try would end alike
  bool is_stopped = false;                // the receiver wanted no more
};

// Takes a piece of the body of a 200 or 206; returns false for no more.
using Receiver = std::function<bool(const WebAnswer& head, std::string_view piece)>;

// Percent-encodes a path, its slashes left.
std::string encode_path(std::string_view path);

class Web {
 public:
  // Throws a Failure if libcurl cannot be loaded.
  explicit Web(const HubSettings& settings);
  ~Web();
  Web(const Web&) = delete;
  Web& operator=(const Web&) = delete;

  // Asks for a path below the hub's address, from the byte `from` on, and follows redirects. The token goes to the
  // hub's own address alone, and nothing goes from https to http.
  WebAnswer get(const std::string& path, int64_t from, const Receiver& receive);

 private:
  struct State;
  HubSettings settings_;
  std::unique_ptr<State> state_;
};

}  // namespace ocellus::app

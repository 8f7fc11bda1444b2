// A client that sends exactly what a test wants to send, and waits no longer than it is told.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace ocellus {

struct HttpReply {
  int status = 0;                              // 0: none came
  std::map<std::string, std::string> headers;  // names in small letters
  std::string body;                            // chunks joined
};

class RawClient {
 public:
  explicit RawClient(int32_t port);
  ~RawClient();
  RawClient(RawClient&& other) noexcept : socket_(other.socket_), received_(std::move(other.received_)) {
    other.socket_ = -1;
  }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool is_connected() const { return socket_ >= 0; }
  // False once the server has closed the connection, or does not read for as long as `wait_ms`.
  bool send(std::string_view bytes, int wait_ms = 5000);
  void finish_sending();
  // The next response; with a body that ends with the connection if nothing says how long it is.
  HttpReply read_reply(int wait_ms = 5000);
  // All that comes until `mark` has come; what was received is kept for the next call.
  bool read_until(std::string_view mark, int wait_ms = 5000);
  bool is_closed_within(int wait_ms);
  const std::string& received() const { return received_; }

 private:
  bool read_some(int64_t until_ms);

  int socket_;
  std::string received_;
  bool is_closed_ = false;
};

// One request on a connection of its own. `extra`: lines that end in "\r\n".
HttpReply fetch(int32_t port, const std::string& method, const std::string& target, const std::string& body = "",
                const std::string& extra = "", int wait_ms = 5000);

int64_t steady_ms();
/// Returns true if the condition holds in time; it is checked every 5 ms.
bool wait_for(const std::function<bool()>& condition, int wait_ms);

}  // namespace ocellus

// The sockets of all clients: time limits for each, and which to close when there are too many. libmicrohttpd itself
// closes only those that send nothing at all.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "apps/http/http_server.h"

namespace ocellus::app {

// CLOCK_MONOTONIC.
int64_t http_clock_ns();

// Opens a non-blocking listening socket with SO_REUSEADDR; *port is the one it got. Throws a Failure.
int listen_on(const std::string& address, int32_t wanted_port, int32_t* port);

struct HttpConnection {
  enum class Phase { kHead, kBody, kAnswer };
  int socket = -1;
  int64_t number = 0;  // by order of arrival
  Phase phase = Phase::kHead;
  int64_t since_ns = 0;  // start of the phase
  bool is_sound_target = true;
  size_t target_bytes = 0;   // as sent
  bool is_too_many = false;  // gets 503 only
  bool is_shut = false;
  bool has_unread_body = false;  // closed in a way that lets the client read the answer first
  bool is_used = false;          // had an answer; waits for its next request until the time limit
};

class HttpConnections {
 public:
  explicit HttpConnections(const HttpOptions& options) : options_(options) {}
  ~HttpConnections();
  HttpConnections(const HttpConnections&) = delete;
  HttpConnections& operator=(const HttpConnections&) = delete;

  // If there are too many, closes the one that has been sending its request for longest; if all have sent theirs, the
  // new one is refused.
  HttpConnection* open(int socket);
  void close(HttpConnection* connection);
  void enter(HttpConnection* connection, HttpConnection::Phase phase);
  void note_target(HttpConnection* connection, std::string_view target);
  // Writes an answer straight to the socket, in the middle of a body; the caller then closes the connection.
  void answer_at_once(HttpConnection* connection, const HttpResponse& response);
  void expect_unread_body(HttpConnection* connection);

  // Shuts down those beyond their time limit, and drains closed ones.
  void tend();
  bool has_closing() const;
  HttpCounts counts() const;
  void count_request();
  void count_shed();

 private:
  void shut(HttpConnection* connection);
  void linger(int socket);
  void tend_closing(int64_t now_ns);

  // A socket that was answered before its body was read: closing it would make the kernel send a reset, which discards
  // the answer. It is drained for a while first.
  struct Closing {
    int socket;
    int64_t until_ns;
  };

  const HttpOptions options_;
  mutable std::mutex mutex_;
  std::list<HttpConnection> connections_;  // in order of arrival
  std::vector<Closing> closing_;
  int64_t shut_count_ = 0;  // shut down ones in connections_
  HttpCounts counts_;
};

}  // namespace ocellus::app

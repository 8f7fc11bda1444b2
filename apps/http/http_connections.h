// The sockets of all clients: how long each has taken, and which must go. libmicrohttpd itself closes only those that
// send nothing at all.
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

// A socket that listens, with SO_REUSEADDR and without waiting; *port is the one it got. Throws a Failure.
int listen_on(const std::string& address, int32_t wanted_port, int32_t* port);

struct HttpConnection {
  enum class Phase { kHead, kBody, kAnswer };
  int socket = -1;
  int64_t number = 0;  // of all, as they came
  Phase phase = Phase::kHead;
  int64_t since_ns = 0;  // of the phase
  bool is_sound_target = true;
  size_t target_bytes = 0;   // as it was sent
  bool is_too_many = false;  // gets no more than 503
  bool is_shut = false;
  bool has_unread_body = false;  // is to be closed so that the client sees the answer first
  bool is_used = false;          // had an answer, and may wait for its next request until it is late
};

class HttpConnections {
 public:
  explicit HttpConnections(const HttpOptions& options) : options_(options) {}
  ~HttpConnections();
  HttpConnections(const HttpConnections&) = delete;
  HttpConnections& operator=(const HttpConnections&) = delete;

  // Where there are too many, the one that has been about its request for longest goes; if all have sent theirs, the
  // new one is too many.
  HttpConnection* open(int socket);
  void close(HttpConnection* connection);
  void enter(HttpConnection* connection, HttpConnection::Phase phase);
  void note_target(HttpConnection* connection, std::string_view target);
  // An answer written straight to the socket, in the middle of a body; the caller then lets the connection be closed.
  void answer_at_once(HttpConnection* connection, const HttpResponse& response);
  void expect_unread_body(HttpConnection* connection);

  // Shuts those that are late, and reads away what is still sent to closed ones.
  void tend();
  bool has_closing() const;
  HttpCounts counts() const;
  void count_request();
  void count_shed();

 private:
  void shut(HttpConnection* connection);
  void linger(int socket);
  void tend_closing(int64_t now_ns);

  // A socket that was answered before its body was read: closing it would make the kernel send a reset, which takes the
  // answer with it. What comes is read and dropped for a while.
  struct Closing {
    int socket;
    int64_t until_ns;
  };

  const HttpOptions options_;
  mutable std::mutex mutex_;
  std::list<HttpConnection> connections_;  // as they came
  std::vector<Closing> closing_;
  int64_t shut_count_ = 0;  // of connections_
  HttpCounts counts_;
};

}  // namespace ocellus::app

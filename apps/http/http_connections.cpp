#include "apps/http/http_connections.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "apps/base/failure.h"
#include "apps/http/http_access.h"

namespace ocellus::app {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int kBacklog = 512;
constexpr size_t kMaxClosing = 32;
constexpr int64_t kClosingNs = 2 * kSecond;
constexpr int64_t kLeftNs = kSecond / 5;
constexpr int64_t kAnswerLeftNs = 2 * kSecond;  // time for clients that close one half and read the answer with the
                                                // other
constexpr int kMaxReadsAtOnce = 64;

union SocketAddress {
  sockaddr any;
  sockaddr_in v4;
  sockaddr_in6 v6;
};

Failure listen_failure(int socket, const std::string& address, int32_t port, const char* what) {
  const std::string reason = std::strerror(errno);
  if (socket >= 0) close(socket);
  return Failure(kExitRuntime,
                 "--http: " + address + ", port " + std::to_string(port) + ": " + what + ": " + reason + ".");
}

bool has_left(int socket) {
  pollfd client = {.fd = socket, .events = POLLRDHUP, .revents = 0};
  return poll(&client, 1, 0) > 0;
}

}  // namespace

int64_t http_clock_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * kSecond + now.tv_nsec;
}

int listen_on(const std::string& address, int32_t wanted_port, int32_t* port) {
  SocketAddress name = {};
  socklen_t name_bytes = 0;
  if (inet_pton(AF_INET, address.c_str(), &name.v4.sin_addr) == 1) {
    name.v4.sin_family = AF_INET;
    name.v4.sin_port = htons(static_cast<uint16_t>(wanted_port));
    name_bytes = sizeof name.v4;
  } else if (inet_pton(AF_INET6, address.c_str(), &name.v6.sin6_addr) == 1) {
    name.v6.sin6_family = AF_INET6;
    name.v6.sin6_port = htons(static_cast<uint16_t>(wanted_port));
    name_bytes = sizeof name.v6;
  } else {
    throw Failure(kExitUsage, "--http " + address + ": this is not an IPv4 or IPv6 address.");
  }
  const int listener = socket(name.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (listener < 0) throw listen_failure(-1, address, wanted_port, "no socket could be made");
  const int on = 1;
  (void)setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const int off = 0;  // all interfaces are those of IPv4, too, whatever the system's default
  if (name.any.sa_family == AF_INET6) (void)setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (bind(listener, &name.any, name_bytes) != 0 || listen(listener, kBacklog) != 0 ||
      getsockname(listener, &name.any, &name_bytes) != 0) {
    throw listen_failure(listener, address, wanted_port, "the address cannot be listened on");
  }
  *port = ntohs(name.any.sa_family == AF_INET ? name.v4.sin_port : name.v6.sin6_port);
  return listener;
}

HttpConnections::~HttpConnections() {
  for (const Closing& one : closing_) ::close(one.socket);
}

HttpConnection* HttpConnections::open(int socket) {
  const std::lock_guard lock(mutex_);
  ++counts_.accepted;
  HttpConnection* slowest = nullptr;
  if (std::ssize(connections_) - shut_count_ >= options_.connections) {
    for (HttpConnection& one : connections_) {
      if (one.is_shut || one.phase == HttpConnection::Phase::kAnswer) continue;
      if (slowest == nullptr || one.since_ns < slowest->since_ns) slowest = &one;
    }
  }
  const bool is_too_many = slowest == nullptr && std::ssize(connections_) - shut_count_ >= options_.connections;
  if (slowest != nullptr) shut(slowest);
  connections_.push_back(
      {.socket = socket, .number = counts_.accepted, .since_ns = http_clock_ns(), .is_too_many = is_too_many});
  return &connections_.back();
}

void HttpConnections::close(HttpConnection* connection) {
  const std::lock_guard lock(mutex_);
  if (connection->is_shut) --shut_count_;
  if (connection->has_unread_body && !connection->is_shut) linger(connection->socket);
  connections_.remove_if([connection](const HttpConnection& one) { return &one == connection; });
}

void HttpConnections::enter(HttpConnection* connection, HttpConnection::Phase phase) {
  const std::lock_guard lock(mutex_);
  connection->is_used = connection->is_used || phase == HttpConnection::Phase::kAnswer;
  connection->phase = phase;
  connection->since_ns = http_clock_ns();
}

void HttpConnections::note_target(HttpConnection* connection, std::string_view target) {
  const std::lock_guard lock(mutex_);
  connection->is_sound_target = is_sound_target(target);
  connection->target_bytes = target.size();
}

void HttpConnections::expect_unread_body(HttpConnection* connection) {
  const std::lock_guard lock(mutex_);
  connection->has_unread_body = true;
}

void HttpConnections::answer_at_once(HttpConnection* connection, const HttpResponse& response) {
  const std::lock_guard lock(mutex_);
  const std::string text = "HTTP/1.1 " + std::to_string(response.status) +
                           " Refused\r\nConnection: close\r\nCache-Control: no-store\r\nX-Content-Type-Options: "
                           "nosniff\r\nReferrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin"
                           "\r\nContent-Type: " +
                           response.content_type + "\r\nContent-Length: " + std::to_string(response.body.size()) +
                           "\r\n\r\n" + response.body;
  // A few hundred bytes on an idle connection fit the socket's buffer.
  (void)send(connection->socket, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  connection->has_unread_body = true;
}

void HttpConnections::shut(HttpConnection* connection) {
  connection->is_shut = true;
  ++shut_count_;
  if (!connection->is_used) ++counts_.shed;
  (void)shutdown(connection->socket, SHUT_RDWR);
}

void HttpConnections::linger(int socket) {
  if (closing_.size() >= kMaxClosing) return;
  const int copy = fcntl(socket, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return;
  (void)shutdown(copy, SHUT_WR);
  closing_.push_back({copy, http_clock_ns() + kClosingNs});
}

void HttpConnections::tend() {
  const std::lock_guard lock(mutex_);
  const int64_t now_ns = http_clock_ns();
  for (HttpConnection& one : connections_) {
    if (one.is_shut) {
      // libmicrohttpd misses an end that comes together with the last bytes: shut down again.
      (void)shutdown(one.socket, SHUT_RDWR);
      continue;
    }
    if (one.phase == HttpConnection::Phase::kAnswer) {
      if (now_ns - one.since_ns > kAnswerLeftNs && has_left(one.socket)) (void)shutdown(one.socket, SHUT_RDWR);
      continue;
    }
    const bool is_head = one.phase == HttpConnection::Phase::kHead;
    const int64_t seconds = is_head ? options_.request_seconds : options_.body_seconds;
    if (now_ns - one.since_ns > seconds * kSecond) {
      shut(&one);
    } else if (now_ns - one.since_ns > kLeftNs && has_left(one.socket)) {
      (void)shutdown(one.socket, SHUT_RDWR);
    }
  }
  tend_closing(now_ns);
}

void HttpConnections::tend_closing(int64_t now_ns) {
  std::array<char, 16384> dropped;
  std::erase_if(closing_, [&](const Closing& one) {
    bool is_done = now_ns > one.until_ns;
    for (int i = 0; i < kMaxReadsAtOnce && !is_done; ++i) {
      const ssize_t count = recv(one.socket, dropped.data(), dropped.size(), MSG_DONTWAIT);
      if (count < 0 && (errno == EAGAIN || errno == EINTR)) break;
      is_done = count <= 0;
    }
    if (is_done) ::close(one.socket);
    return is_done;
  });
}

bool HttpConnections::has_closing() const {
  const std::lock_guard lock(mutex_);
  return !closing_.empty();
}

HttpCounts HttpConnections::counts() const {
  const std::lock_guard lock(mutex_);
  HttpCounts counts = counts_;
  counts.connections = std::ssize(connections_);
  return counts;
}

void HttpConnections::count_request() {
  const std::lock_guard lock(mutex_);
  ++counts_.requests;
}

void HttpConnections::count_shed() {
  const std::lock_guard lock(mutex_);
  ++counts_.shed;
}

}  // namespace ocellus::app

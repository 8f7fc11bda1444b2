#include "tests/support/http_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <utility>

namespace ocellus {

int64_t steady_ms() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

bool wait_for(const std::function<bool()>& condition, int wait_ms) {
  const int64_t until = steady_ms() + wait_ms;
  while (!condition()) {
    if (steady_ms() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

RawClient::RawClient(int32_t port) : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in name = {};
  name.sin_family = AF_INET;
  name.sin_port = htons(static_cast<uint16_t>(port));
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (socket_ < 0 || connect(socket_, reinterpret_cast<sockaddr*>(&name), sizeof name) == 0) return;
  close(socket_);
  socket_ = -1;
}

RawClient::~RawClient() {
  if (socket_ >= 0) close(socket_);
}

bool RawClient::send(std::string_view bytes, int wait_ms) {
  const int64_t until = steady_ms() + wait_ms;
  while (!bytes.empty()) {
    const ssize_t count = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count > 0) {
      bytes.remove_prefix(static_cast<size_t>(count));
      continue;
    }
    if (errno != EAGAIN || steady_ms() > until) return false;
    pollfd ready = {.fd = socket_, .events = POLLOUT, .revents = 0};
    (void)poll(&ready, 1, 20);
  }
  return true;
}

void RawClient::finish_sending() { (void)shutdown(socket_, SHUT_WR); }

bool RawClient::read_some(int64_t until_ms) {
  std::array<char, 65536> bytes;
  while (!is_closed_) {
    const ssize_t count = recv(socket_, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count > 0) {
      received_.append(bytes.data(), static_cast<size_t>(count));
      return true;
    }
    if (count == 0 || errno != EAGAIN) {
      is_closed_ = true;
      break;
    }
    const int64_t left = until_ms - steady_ms();
    if (left <= 0) return false;
    pollfd ready = {.fd = socket_, .events = POLLIN, .revents = 0};
    (void)poll(&ready, 1, static_cast<int>(left));
  }
  return false;
}

bool RawClient::read_until(std::string_view mark, int wait_ms) {
  const int64_t until = steady_ms() + wait_ms;
  while (received_.find(mark) == std::string::npos) {
    if (!read_some(until)) return false;
  }
  return true;
}

bool RawClient::is_closed_within(int wait_ms) {
  const int64_t until = steady_ms() + wait_ms;
  while (read_some(until)) {
  }
  return is_closed_;
}

HttpReply RawClient::read_reply(int wait_ms) {
  const int64_t until = steady_ms() + wait_ms;
  HttpReply reply;
  if (!read_until("\r\n\r\n", wait_ms)) return reply;
  const size_t head_end = received_.find("\r\n\r\n") + 2;
  std::string head = received_.substr(0, head_end);
  received_.erase(0, head_end + 2);
  reply.status = head.size() > 9 ? std::atoi(head.c_str() + 9) : 0;
  for (size_t at = head.find("\r\n") + 2; at < head.size(); at = head.find("\r\n", at) + 2) {
    const std::string line = head.substr(at, head.find("\r\n", at) - at);
    std::string name = line.substr(0, line.find(':'));
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    reply.headers[name] = line.size() > name.size() + 2 ? line.substr(name.size() + 2) : "";
  }
  if (reply.headers.count("content-length") != 0) {
    const auto bytes = static_cast<size_t>(std::atoll(reply.headers["content-length"].c_str()));
    while (received_.size() < bytes && read_some(until)) {
    }
    reply.body = received_.substr(0, bytes);
    received_.erase(0, bytes);
    return reply;
  }
  if (reply.headers.count("transfer-encoding") == 0) {
    while (read_some(until)) {
    }
    reply.body = std::exchange(received_, {});
    return reply;
  }
  for (;;) {
    if (!read_until("\r\n", static_cast<int>(until - steady_ms()))) return reply;
    const size_t line_end = received_.find("\r\n") + 2;
    const auto bytes = static_cast<size_t>(std::strtoul(received_.c_str(), nullptr, 16));
    while (received_.size() < line_end + bytes + 2 && read_some(until)) {
    }
    reply.body += received_.substr(line_end, bytes);
    received_.erase(0, line_end + bytes + 2);
    if (bytes == 0) return reply;
  }
}

HttpReply fetch(int32_t port, const std::string& method, const std::string& target, const std::string& body,
                const std::string& extra, int wait_ms) {
  RawClient client(port);
  const bool has_host = extra.find("Host:") != std::string::npos;
  std::string request = method + " " + target + " HTTP/1.1\r\n" + (has_host ? "" : "Host: localhost\r\n") + extra;
  if (!body.empty()) request += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  if (!client.is_connected() || !client.send(request + "\r\n" + body, wait_ms)) return {};
  if (method != "HEAD") return client.read_reply(wait_ms);
  HttpReply reply;
  if (client.read_until("\r\n\r\n", wait_ms)) reply.status = std::atoi(client.received().c_str() + 9);
  reply.body = client.received().substr(std::min(client.received().find("\r\n\r\n") + 4, client.received().size()));
  return reply;
}

}  // namespace ocellus

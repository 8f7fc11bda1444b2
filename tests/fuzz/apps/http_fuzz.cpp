// Requests to the HTTP server, through a socket: heads that are nearly right, bodies with lengths and in chunks,
// several requests in a row.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <string>

#include "apps/http/http_access.h"
#include "apps/http/http_server.h"
#include "tests/fuzz/apps/json_changes.h"
#include "tests/fuzz/byte_changes.h"

namespace ocellus::fuzz {
namespace {

constexpr int64_t kBodyBytes = 2000;
constexpr int kSilenceSeconds = 5;  // after which an answer is missing
constexpr const char* kLines[] = {"GET / HTTP/1.1",      "POST /echo HTTP/1.1",    "HEAD / HTTP/1.1",
                                  "GET /echo HTTP/1.0",  "OPTIONS * HTTP/1.1",     "GET http://localhost/ HTTP/1.1",
                                  "GET //x HTTP/1.1",    "GET /%00 HTTP/1.1",      "GET /a%2f..%2f HTTP/1.1",
                                  "PRI * HTTP/2.0",      "GET /?token=x HTTP/1.1", "POST /echo HTTP/9.9",
                                  "GET /  HTTP/1.1",     "get / http/1.1",         "",
                                  "CONNECT a:1 HTTP/1.1"};
constexpr const char* kFields[] = {
    "Host: localhost",
    "Host: 127.0.0.1:8080",
    "Host: evil.example",
    "Host: [::1]",
    "Host:",
    "Content-Length: 0",
    "Content-Length: 5",
    "Content-Length: +5",
    "Content-Length: 5, 5",
    "Content-Length: 99999999999999999999",
    "Content-Length: 0x5",
    "Transfer-Encoding: chunked",
    "Transfer-Encoding: gzip, chunked",
    "Transfer-Encoding: identity",
    "Transfer-Encoding : chunked",
    "Connection: close",
    "Connection: keep-alive",
    "Expect: 100-continue",
    "Origin: null",
    "Origin: http://localhost",
    "Sec-Fetch-Site: cross-site",
    "Sec-Fetch-Site: same-origin",
    "Cookie: a=1; b=2",
    "Authorization: Bearer x",
    "Content-Type: application/json",
    "Upgrade: h2c",
    "X\xff: y",
    ": empty",
    "no colon",
    " folded: line",
    "X-Long: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy",
    "Range: bytes=0-1",
    "Content-Encoding: gzip",
    "Trailer: X"};
constexpr const char* kBodies[] = {
    "hello",  "5\r\nhello\r\n0\r\n\r\n", "0\r\n\r\n", "FFFFFFFFFFFFFFFFF\r\nx", "5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n",
    "-1\r\n", "5\nhello\n0\n\n",         "{}"};

// A server on a port of its own whose handlers look at what they get.
class Server {
 public:
  Server() : server_(options()) {
    const auto take = [this](const std::shared_ptr<app::HttpExchange>& exchange) {
      const app::HttpRequest& request = exchange->request();
      require(request.path == "/" || request.path == "/echo", "a handler gets its own path");
      require(std::ssize(request.body) <= kBodyBytes, "a handler gets no body beyond the limit");
      require(request.header("host").find("evil") == std::string_view::npos, "a handler gets no foreign host");
      require(request.header("sec-fetch-site") != "cross-site", "a handler gets nothing from another site");
      ++handled;
      exchange->respond({.body = request.body + "\n"});
    };
    server_.handle("GET", "/", take);
    server_.handle("POST", "/echo", take);
    server_.start();
  }
  int32_t port() const { return server_.port(); }
  std::atomic<int64_t> handled{0};

 private:
  static app::HttpOptions options() {
    app::HttpOptions options;
    options.port = 0;
    options.body_bytes = kBodyBytes;
    return options;
  }
  app::HttpServer server_;
};

Server& server() {
  static Server one;
  return one;
}

// All that comes back for these bytes until the server ends the connection, having seen our end.
std::string exchange(const uint8_t* data, size_t size) {
  const int client = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  require(client >= 0, "a socket can be made");
  const timeval limit = {kSilenceSeconds, 0};
  ::setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  ::setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  const linger at_once = {1, 0};  // leaves no port in TIME_WAIT
  ::setsockopt(client, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(server().port()));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  require(::connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0, "the server listens");
  for (size_t sent = 0; sent < size;) {
    const ssize_t count = ::send(client, data + sent, size - sent, MSG_NOSIGNAL);
    if (count <= 0) break;  // refused already
    sent += static_cast<size_t>(count);
  }
  ::shutdown(client, SHUT_WR);
  std::string answer;
  char piece[4096];
  ssize_t count = 0;
  while ((count = ::recv(client, piece, sizeof piece, 0)) > 0) answer.append(piece, static_cast<size_t>(count));
  const bool is_silent = count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
  ::close(client);
  require(!is_silent, "the server answers or ends the connection");
  return answer;
}

bool run(const uint8_t* data, size_t size) {
  const int64_t before = server().handled;
  const std::string answer = exchange(data, size);
  if (!answer.empty()) {
    const bool is_http = answer.rfind("HTTP/1.", 0) == 0 && answer.size() > 12 && answer[9] >= '1' && answer[9] <= '5';
    require(is_http, "an answer is HTTP");
  }
  const bool is_handled = server().handled > before;
  static int64_t runs = 0;
  if (++runs % 64 == 0) {
    const std::string good = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    const std::string reply = exchange(reinterpret_cast<const uint8_t*>(good.data()), good.size());
    require(reply.rfind("HTTP/1.1 200", 0) == 0, "a good request is answered still");
  }
  return is_handled;
}

std::vector<Bytes> make_seeds() {
  const std::string post = "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello";
  const std::string get = "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: */*\r\n\r\n";
  const std::string chunks =
      "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
  return {bytes_of(get), bytes_of(post), bytes_of(chunks), bytes_of(get + post + get),
          bytes_of("POST /echo HTTP/1.1\r\nHost: [::1]:80\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n{}")};
}

// Lines of the bytes, each with its end.
std::vector<std::string> split_lines(const Bytes& input) {
  std::vector<std::string> lines(1);
  for (const uint8_t byte : input) {
    lines.back() += static_cast<char>(byte);
    if (byte == '\n') lines.emplace_back();
  }
  return lines;
}

void change_head(Bytes& input, Random& random) {
  std::vector<std::string> lines = split_lines(input);
  std::string& line = pick(lines, random);
  const std::string end = once_in(16, random) ? "\n" : once_in(16, random) ? "\r\r\n" : "\r\n";
  const size_t at = pick_index(lines.size(), random);
  switch (random.integer(0, 8)) {
    case 0: change_order(lines, random); break;
    case 1: line = pick(kLines, random) + end; break;
    case 2: line = pick(kFields, random) + end; break;
    case 3:
    case 4: lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(at), pick(kFields, random) + end); break;
    case 5: lines.push_back(pick(kBodies, random)); break;
    case 6: {
      Bytes bytes = bytes_of(line);
      change_bytes(bytes, random);
      line.assign(bytes.begin(), bytes.end());
      break;
    }
    case 7: line.insert(pick_index(line.size() + 1, random), once_in(2, random) ? " " : "\t"); break;
    default: {  // another request after this one
      const std::vector<Bytes> seeds = make_seeds();
      const Bytes& next = pick(seeds, random);
      lines.emplace_back(next.begin(), next.end());
    }
  }
  input.clear();
  for (const std::string& one : lines) input.insert(input.end(), one.begin(), one.end());
}

const Registration kRegistered({.name = "http",
                                .make_seeds = make_seeds,
                                .mutate = change_head,
                                .run = run,
                                .most_bytes = 1 << 14,
                                .most_heap_bytes = int64_t{16} << 20});

}  // namespace
}  // namespace ocellus::fuzz

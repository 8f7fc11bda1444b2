// A small HTTP/1.1 server for this program's page and endpoints. libmicrohttpd implements the protocol, on one thread
// for all connections; this class bounds what clients can use: connections, time, bodies, waiting bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/http/http_body.h"

namespace ocellus::app {

struct HttpRequest {
  std::string method;  // "GET"
  std::string path;    // decoded, without the query; begins with '/'
  std::string body;
  // Names are in lower case.
  std::vector<std::pair<std::string, std::string>> headers;
  std::vector<std::pair<std::string, std::string>> query;
  std::string cors_origin;  // origin of another site's page that may read the answer; empty: none
  std::string address;      // the client's
  std::string client;       // the same or, on this machine, where all share one, the connection
  std::string user;         // the user of the key that the request carries; empty without HttpOptions::keys

  std::string_view header(std::string_view name) const;  // empty if absent
  std::string_view argument(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers = {};
  // In place of `body`: gives the next bytes of it, some kilobytes, each time that the client has read the ones before,
  // and none at its end. Called on the server's thread: must not block. Counts for nothing: what it holds is counted by
  // whoever made it.
  std::function<std::string()> more = {};
};

// One request and its response. Functions may be called from any thread while a reference is held; after the client has
// left they do nothing.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;
  virtual const HttpRequest& request() const = 0;
  // Sends the whole response. Once, and not with a stream. A large one is counted as a body; where all of them would
  // exceed their maximum, the client gets 503.
  virtual void respond(HttpResponse response) = 0;
  // Sends a response whose body comes in pieces: begin (its `body` is the first piece), write, end.
  virtual void begin_stream(HttpResponse head) = 0;
  // Returns false if the client has left, or was cut off because more than HttpOptions::stream_bytes were unread.
  virtual bool write(std::string_view bytes) = 0;
  virtual void end() = 0;
  // True while the client waits for an answer. Detects within half a second that it has left.
  virtual bool is_open() const = 0;
  // Moves the body out of the request.
  virtual HttpBody take_body() = 0;
};

using HttpHandler = std::function<void(std::shared_ptr<HttpExchange>)>;

// A user's secret, sent as "Authorization: Bearer SECRET".
struct HttpKey {
  std::string secret;
  std::string user;
};

struct HttpOptions {
  std::string address = "127.0.0.1";  // IPv4 or IPv6; any but loopback needs a token
  int32_t port = 8080;                // 0: any free port
  std::string token;          // empty: none. Sent as "Authorization: Bearer TOKEN", as ?token=TOKEN of a page or
                              // from that of token_page.h, which then set a cookie, or as that cookie
  std::vector<HttpKey> keys;  // in place of a token: one or more for each user
  std::vector<std::string> cors_origins;  // other origins whose pages are allowed
  std::string prefix;                     // paths are also found without it, as /models for /v1/models; may be empty
  int64_t body_bytes = 1 << 20;           // maximum size of a body; larger ones get 413 and are not kept
  int64_t stream_bytes = 1 << 20;         // maximum that waits for one client
  int64_t all_body_bytes = 64 << 20;      // maximum of all bodies that are being received or held by exchanges, and of
                                          // answers above `stream_bytes`; then 503
  int32_t connections = 256;
  int32_t request_seconds = 10;  // from the connection, or the end of the last response, to the end of the headers
  int32_t body_seconds = 60;     // from there to the end of the body; also the limit for a client to read a complete
                                 // answer
};

// Reads the token from a file that only its owner can read, without white space around it. Throws a Failure.
std::string read_token_file(const std::string& path);
// Reads "KEY USER" lines from such a file; empty lines and those that begin with # are skipped. Several keys may belong
// to one user. Throws a Failure, which never shows a key.
std::vector<HttpKey> read_key_file(const std::string& path);

// Returns the maximum memory of a server with these bounds: bodies and large answers, one of which may be growing, and
// for each connection its buffers and waiting bytes.
int64_t most_http_bytes(const HttpOptions& options);
// Returns the line printed below a memory plan.
std::string describe_http_bytes(int64_t most_bytes);

// Parses "127.0.0.1:8080", ":8080", "8080", "[::1]:8080"; throws a Failure for anything else.
HttpOptions parse_http_address(const std::string& text);

struct HttpCounts {
  int64_t connections = 0;  // open now
  int64_t accepted = 0;
  int64_t requests = 0;
  int64_t shed = 0;        // connections closed and requests refused because of a limit above
  int64_t body_bytes = 0;  // held now
};

class HttpServer {
 public:
  // Throws a Failure for an address that needs a token.
  explicit HttpServer(HttpOptions options);
  ~HttpServer();  // stops
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Registers a handler before start(). `path` is matched as a whole, a slash at its end aside; one that ends in "/*"
  // matches all below it. HttpRequest::path is then as it was registered. Other paths get 404, other methods of a known
  // path 405; HEAD is answered as GET. Handlers run on the server's thread and must not block. With a token, requests
  // without it get 401 before their handler runs, except under `open_path`; of a browser, with a page that asks for it.
  // `body_bytes`: maximum body size of this path; 0: HttpOptions::body_bytes.
  void handle(const std::string& method, const std::string& path, HttpHandler handler, int64_t body_bytes = 0);
  void open_path(const std::string& path);
  // Throws a Failure if the address cannot be listened on.
  void start();
  void stop();
  int32_t port() const;  // the actual port
  // Returns "http://127.0.0.1:8080"; where it listens on all interfaces, those of their addresses, loopback first.
  std::vector<std::string> urls() const;
  HttpCounts counts() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// {"error": {"message": ..., "type": ..., "code": ...}} as in OpenAI's API; used by all our endpoints.
HttpResponse error_response(int status, const std::string& message, const std::string& type = "invalid_request_error",
                            const std::string& code = "");

}  // namespace ocellus::app

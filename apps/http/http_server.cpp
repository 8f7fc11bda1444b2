#include "apps/http/http_server.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <set>
#include <thread>

#include "apps/base/failure.h"
#include "apps/base/plain_text.h"
#include "apps/base/sizes.h"
#include "apps/http/http_access.h"
#include "apps/http/http_connections.h"
#include "apps/http/http_exchange.h"
#include "apps/http/http_head.h"
#include "apps/http/token_page.h"

namespace ocellus::app {
namespace {

using std::chrono::milliseconds;

constexpr unsigned kReserveConnections = 32;  // open while others are being closed
// Holds the head of a request and the pieces of its response. libmicrohttpd maps blocks larger than 32 KiB, so they
// return to the system with the connection.
constexpr size_t kConnectionBytes = 36864;
constexpr int64_t kAroundConnectionBytes = 65536;  // copies of the head, blocks of a stream, state of both libraries
// Blocks of at least this size are mapped separately and return to the system when they are freed.
constexpr int kMappedBytes = 128 << 10;
constexpr size_t kFirstBodyBytes = 64 << 10;
constexpr auto kHousekeeping = milliseconds(200);
constexpr auto kBusyHousekeeping = milliseconds(20);
constexpr auto kMaxStopping = milliseconds(500);

HttpConnection* connection_of(MHD_Connection* connection) {
  const MHD_ConnectionInfo* info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  return info == nullptr ? nullptr : static_cast<HttpConnection*>(info->socket_context);
}

std::string_view find_value(const std::vector<std::pair<std::string, std::string>>& values, std::string_view name) {
  for (const auto& [key, value] : values) {
    if (key == name) return value;
  }
  return {};
}

MHD_Result add_field(void* fields, MHD_ValueKind /*kind*/, const char* name, size_t name_bytes, const char* value,
                     size_t value_bytes) noexcept {
  static_cast<std::vector<HeadField>*>(fields)->push_back({{name, name_bytes}, {value, value_bytes}});
  return MHD_YES;
}

// True if folded lines and lines that end in a bare LF can be detected only by the addresses of their parts.
bool hides_lines() { return std::strncmp(MHD_get_version(), "0.", 2) == 0; }

MHD_Result add_argument(void* query, MHD_ValueKind /*kind*/, const char* name, const char* value) noexcept {
  static_cast<std::vector<std::pair<std::string, std::string>>*>(query)->emplace_back(name, value ? value : "");
  return MHD_YES;
}

// Returns the client's address; empty if it has none.
std::string client_address(MHD_Connection* connection) {
  const sockaddr* address = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr;
  char host[INET6_ADDRSTRLEN] = "";
  if (address->sa_family == AF_INET) {
    (void)inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, host, sizeof host);
  } else if (address->sa_family == AF_INET6) {
    (void)inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, host, sizeof host);
  }
  return host;
}

// Returns -1 if the request does not state it.
int64_t announced_body_bytes(const HttpRequest& request) {
  const std::string text(request.header("content-length"));
  if (text.empty()) return -1;
  const unsigned long long bytes = std::strtoull(text.c_str(), nullptr, 10);
  return static_cast<int64_t>(std::min<unsigned long long>(bytes, std::numeric_limits<int64_t>::max()));
}

HttpResponse refuse_large_body(int64_t most_bytes) {
  return error_response(413, "The body is larger than the " + std::to_string(most_bytes) + " bytes that are taken.",
                        "invalid_request_error", "body_too_large");
}

struct Route {
  HttpHandler handler;
  int64_t body_bytes;  // maximum size of the body
};

// A request from its first line to the end of its response.
struct Pending {
  HttpRequest request;
  int64_t body_bytes = 0;  // counted in the server's total
  bool is_last = false;    // last request of its connection
  std::optional<HttpResponse> refusal;
  const Route* route = nullptr;
  std::shared_ptr<Exchange> exchange;
};

// Grows by a factor of four, but not beyond the announced or allowed size. A client that announces much and sends
// nothing uses no memory, also where all memory is locked.
void grow_body(HttpRequest* request, size_t more_bytes, int64_t most_bytes) {
  const size_t needed = request->body.size() + more_bytes;
  if (needed <= request->body.capacity()) return;
  const int64_t announced = announced_body_bytes(*request);
  const auto most = static_cast<size_t>(announced >= 0 ? announced : most_bytes);
  request->body.reserve(std::max(needed, std::min(most, std::max(kFirstBodyBytes, 4 * request->body.capacity()))));
}

MHD_Result queue_refusal(MHD_Connection* connection, Pending* pending) {
  HttpResponse refusal = *std::exchange(pending->refusal, std::nullopt);
  allow_origin(&refusal, pending->request.cors_origin);
  if (pending->is_last) refusal.headers.emplace_back("Connection", "close");
  return queue_response(connection, std::move(refusal));
}

}  // namespace

std::string_view HttpRequest::header(std::string_view name) const { return find_value(headers, name); }
std::string_view HttpRequest::argument(std::string_view name) const { return find_value(query, name); }

struct HttpServer::State {
  struct Callbacks;

  explicit State(HttpOptions given) : options(std::move(given)), connections(options) {}

  MHD_Result take(MHD_Connection* connection, const char* url, const char* method, const char* version,
                  const char* data, size_t* data_bytes, Pending** pending);
  Pending* begin(MHD_Connection* connection, const char* url, const char* method, const char* version);
  std::optional<HttpResponse> refuse(const HttpRequest& request, const HttpConnection& connection, const Route** route);
  std::optional<HttpResponse> find_handler(const HttpRequest& request, const Route** route) const;
  bool has_route(const std::string& path) const;
  std::string find_path(std::string path) const;
  bool is_open(const std::string& path) const;
  MHD_Result take_body(MHD_Connection* connection, Pending* pending, std::string_view data);
  MHD_Result dispatch(MHD_Connection* connection, Pending* pending);
  void complete(MHD_Connection* connection, Pending* pending);
  void keep_house();
  std::vector<std::shared_ptr<Exchange>> open_exchanges();

  HttpOptions options;
  AccessRules access;
  std::map<std::string, std::map<std::string, Route>> routes;  // by path, then method
  std::vector<std::string> open_paths;
  HttpConnections connections;
  std::shared_ptr<ExchangeTotals> totals = std::make_shared<ExchangeTotals>();
  MHD_Daemon* daemon = nullptr;
  int32_t port = 0;

  std::mutex mutex;  // guards the members below
  std::condition_variable changed;
  bool is_stopping = false;
  std::set<std::shared_ptr<Exchange>> exchanges;
  std::thread housekeeper;
};

namespace {

bool matches(const std::string& pattern, const std::string& path) {
  if (pattern.size() < 2 || pattern.compare(pattern.size() - 2, 2, "/*") != 0) return pattern == path;
  return path.size() >= pattern.size() && path.compare(0, pattern.size() - 1, pattern, 0, pattern.size() - 1) == 0;
}

}  // namespace

bool HttpServer::State::has_route(const std::string& path) const {
  return std::any_of(routes.begin(), routes.end(), [&path](const auto& route) { return matches(route.first, path); });
}

// The path that a client means: one that has a route, perhaps without the slash at its end, or with the prefix.
std::string HttpServer::State::find_path(std::string path) const {
  if (routes.count(path) == 0 && path.size() > 1 && path.back() == '/') path.pop_back();
  return !has_route(path) && has_route(options.prefix + path) ? options.prefix + path : path;
}

bool HttpServer::State::is_open(const std::string& path) const {
  return std::any_of(open_paths.begin(), open_paths.end(),
                     [&path](const std::string& pattern) { return matches(pattern, path); });
}

std::optional<HttpResponse> HttpServer::State::find_handler(const HttpRequest& request, const Route** route) const {
  const std::string method = request.method == "HEAD" ? "GET" : request.method;
  const std::map<std::string, Route>* methods = nullptr;
  size_t longest = 0;  // the exact path, or else the longest that ends in "/*"
  for (const auto& [pattern, handlers] : routes) {
    if (!matches(pattern, request.path) || pattern.size() < longest) continue;
    methods = &handlers;
    longest = pattern == request.path ? std::string::npos : pattern.size();
  }
  if (methods == nullptr) {
    return error_response(404, "There is nothing at " + shorten(request.path) + ".", "invalid_request_error",
                          "not_found");
  }
  if (const auto found = methods->find(method); found != methods->end()) {
    *route = &found->second;
    return std::nullopt;
  }
  std::string allowed;
  for (const auto& [name, unused] : *methods) {
    allowed += (allowed.empty() ? "" : ", ") + name + (name == "GET" ? ", HEAD" : "");
  }
  HttpResponse refusal =
      error_response(405, request.path + " takes " + allowed + " only.", "invalid_request_error", "method_not_allowed");
  refusal.headers = {{"Allow", allowed}};
  return refusal;
}

std::optional<HttpResponse> HttpServer::State::refuse(const HttpRequest& request, const HttpConnection& connection,
                                                      const Route** route) {
  if (connection.is_too_many) {
    connections.count_shed();
    return refuse_overload();
  }
  if (auto answer = answer_preflight(request)) return answer;
  if (auto refusal = refuse_access(access, request, is_open(request.path))) return refusal;
  if (auto refusal = find_handler(request, route)) return refusal;
  if (announced_body_bytes(request) <= (*route)->body_bytes) return std::nullopt;
  connections.count_shed();
  return refuse_large_body((*route)->body_bytes);
}

// Called when the head of a request is complete.
Pending* HttpServer::State::begin(MHD_Connection* connection, const char* url, const char* method,
                                  const char* version) {
  auto pending = std::make_unique<Pending>();
  HttpConnection* client = connection_of(connection);
  RequestHead head = {.method = method, .target = {url, client->target_bytes}, .version = version, .fields = {}};
  (void)MHD_get_connection_values_n(connection, MHD_HEADER_KIND, add_field, &head.fields);
  HttpRequest& request = pending->request;
  request.method = method;
  request.path = find_path(url);
  request.address = client_address(connection);
  request.client =
      is_loopback_address(request.address) ? "connection " + std::to_string(client->number) : request.address;
  for (const HeadField& field : head.fields) {
    request.headers.emplace_back(to_lower(field.name), std::string(field.value));
  }
  (void)MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, add_argument, &request.query);
  std::optional<std::string> ambiguity = find_ambiguity(head);
  if (!client->is_sound_target) ambiguity = "The path of the request is malformed.";
  const size_t head_bytes = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE)->header_size;
  if (!ambiguity && hides_lines() && !lies_as_received(head, head_bytes)) {
    ambiguity = "The lines of the head are folded, or do not end in CR and LF.";
  }
  if (ambiguity) {
    pending->refusal = error_response(400, *ambiguity);
    pending->is_last = true;
    return pending.release();
  }
  request.cors_origin = allowed_origin(access, request);
  request.user = find_user(access, request);
  pending->is_last = !request.header("transfer-encoding").empty();
  pending->refusal = refuse(request, *client, &pending->route);
  return pending.release();
}

MHD_Result HttpServer::State::take(MHD_Connection* connection, const char* url, const char* method, const char* version,
                                   const char* data, size_t* data_bytes, Pending** pending) {
  HttpConnection* client = connection_of(connection);
  if (*pending == nullptr) {
    connections.count_request();
    connections.enter(client, HttpConnection::Phase::kBody);
    *pending = begin(connection, url, method, version);
    Pending& begun = **pending;
    const int64_t announced = announced_body_bytes(begun.request);
    if (begun.refusal && (announced > 0 || begun.is_last)) {
      connections.expect_unread_body(client);
      return queue_refusal(connection, &begun);
    }
    return MHD_YES;
  }
  if (*data_bytes > 0) {
    return take_body(connection, *pending, std::string_view(data, std::exchange(*data_bytes, 0)));
  }
  if ((*pending)->exchange != nullptr) return (*pending)->exchange->answer();
  connections.enter(client, HttpConnection::Phase::kAnswer);
  if ((*pending)->refusal) return queue_refusal(connection, *pending);
  return dispatch(connection, *pending);
}

MHD_Result HttpServer::State::take_body(MHD_Connection* connection, Pending* pending, std::string_view data) {
  const auto bytes = static_cast<int64_t>(data.size());
  std::optional<HttpResponse> refusal;
  if (pending->body_bytes + bytes > pending->route->body_bytes) {
    refusal = refuse_large_body(pending->route->body_bytes);
  } else if (totals->body_bytes + bytes > options.all_body_bytes) {
    refusal = refuse_overload();
  } else {
    grow_body(&pending->request, data.size(), pending->route->body_bytes);
    pending->request.body += data;
    pending->body_bytes += bytes;
    totals->body_bytes += bytes;
    return MHD_YES;
  }
  connections.count_shed();
  connections.answer_at_once(connection_of(connection), *refusal);
  return MHD_NO;
}

// Called when the request is complete.
MHD_Result HttpServer::State::dispatch(MHD_Connection* connection, Pending* pending) {
  const auto exchange = std::make_shared<Exchange>(std::move(pending->request), options, totals, connection,
                                                   connection_of(connection)->socket);
  pending->body_bytes = 0;  // counted by the exchange from here on
  {
    const std::lock_guard lock(mutex);
    if (is_stopping) return MHD_NO;
    exchanges.insert(exchange);
  }
  pending->exchange = exchange;
  try {
    pending->route->handler(exchange);
  } catch (const std::exception& error) {
    exchange->respond(error_response(500, "The server failed: " + describe_exception(error), "server_error"));
  } catch (...) {
    exchange->respond(error_response(500, "The server failed.", "server_error"));
  }
  return exchange->answer();
}

void HttpServer::State::complete(MHD_Connection* connection, Pending* pending) {
  totals->body_bytes -= pending->body_bytes;
  if (pending->exchange != nullptr) {
    pending->exchange->detach();
    const std::lock_guard lock(mutex);
    exchanges.erase(pending->exchange);
    changed.notify_all();
  }
  delete pending;
  if (HttpConnection* client = connection_of(connection)) connections.enter(client, HttpConnection::Phase::kHead);
}

std::vector<std::shared_ptr<Exchange>> HttpServer::State::open_exchanges() {
  const std::lock_guard lock(mutex);
  return {exchanges.begin(), exchanges.end()};
}

void HttpServer::State::keep_house() {
  std::unique_lock lock(mutex);
  while (!is_stopping) {
    lock.unlock();
    connections.tend();
    const int64_t now_ns = http_clock_ns();
    for (const auto& exchange : open_exchanges()) exchange->check_client(now_ns);
    const auto pause = connections.has_closing() ? kBusyHousekeeping : kHousekeeping;
    lock.lock();
    changed.wait_for(lock, pause, [this] { return is_stopping; });
  }
}

// Callbacks of libmicrohttpd. They must not throw.
struct HttpServer::State::Callbacks {
  static MHD_Result on_request(void* state, MHD_Connection* connection, const char* url, const char* method,
                               const char* version, const char* data, size_t* data_bytes, void** pending) noexcept {
    try {
      return static_cast<State*>(state)->take(connection, url, method, version, data, data_bytes,
                                              reinterpret_cast<Pending**>(pending));
    } catch (...) {
      return MHD_NO;  // out of memory: the connection is closed
    }
  }
  static void on_completed(void* state, MHD_Connection* connection, void** pending,
                           MHD_RequestTerminationCode /*code*/) noexcept {
    if (*pending == nullptr) return;
    static_cast<State*>(state)->complete(connection, static_cast<Pending*>(std::exchange(*pending, nullptr)));
  }
  static void on_connection(void* state, MHD_Connection* connection, void** context,
                            MHD_ConnectionNotificationCode code) noexcept {
    HttpConnections& connections = static_cast<State*>(state)->connections;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
      *context = connections.open(MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd);
    } else if (*context != nullptr) {
      connections.close(static_cast<HttpConnection*>(std::exchange(*context, nullptr)));
    }
  }
  static void* on_target(void* state, const char* target, MHD_Connection* connection) noexcept {
    HttpConnections& connections = static_cast<State*>(state)->connections;
    if (HttpConnection* client = connection_of(connection)) connections.note_target(client, target);
    return nullptr;
  }
};

int64_t most_http_bytes(const HttpOptions& options) {
  const int64_t connections = int64_t{options.connections} + kReserveConnections;
  return options.all_body_bytes + options.body_bytes +
         connections * (static_cast<int64_t>(kConnectionBytes) + kAroundConnectionBytes) +
         options.connections * options.stream_bytes;
}

std::string describe_http_bytes(int64_t most_bytes) {
  return "HTTP, outside the plan: at most " + format_bytes(most_bytes);
}

HttpServer::HttpServer(HttpOptions options) : state_(std::make_unique<State>(std::move(options))) {
  const HttpOptions& given = state_->options;
  if (!is_numeric_address(given.address)) {
    throw Failure(kExitUsage, "--http " + given.address + ": this is not an IPv4 or IPv6 address.");
  }
  if (given.token.empty() && given.keys.empty() && !is_loopback_address(given.address)) {
    throw Failure(kExitUsage, "--http " + given.address + ": others reach this address, so it needs --token.");
  }
  if (!given.token.empty() && !is_sound_token(given.token)) {
    throw Failure(kExitUsage, "--token: up to 512 letters, digits and -._~+/ are allowed, with = at the end.");
  }
  for (const std::string& origin : given.cors_origins) {
    if (is_sound_origin(origin)) continue;
    throw Failure(kExitUsage,
                  "--cors " + origin + ": write one origin as browsers send it, as in https://example.com:8443.");
  }
  if (!given.token.empty()) add_token_page(this, &state_->access);
}

HttpServer::~HttpServer() { stop(); }

void HttpServer::handle(const std::string& method, const std::string& path, HttpHandler handler, int64_t body_bytes) {
  state_->routes[path][method] = {std::move(handler), body_bytes == 0 ? state_->options.body_bytes : body_bytes};
}

void HttpServer::open_path(const std::string& path) { state_->open_paths.push_back(path); }

void HttpServer::start() {
#ifdef __GLIBC__
  // A fixed threshold: glibc raises its own when the first large body is freed, and then keeps the next ones in the
  // heap.
  (void)mallopt(M_MMAP_THRESHOLD, kMappedBytes);
#endif
  State& state = *state_;
  const HttpOptions& options = state.options;
  const int listener = listen_on(options.address, options.port, &state.port);
  state.access = {.token = options.token,
                  .keys = options.keys,
                  .cookie_name = "ocellus_" + std::to_string(state.port),
                  .cors_origins = options.cors_origins};
  state.is_stopping = false;
  // Poll rather than epoll: libmicrohttpd's edge-triggered epoll misses ends of connections under attack, which then
  // stay open forever. A few hundred connections are no burden for poll.
  state.daemon = MHD_start_daemon(
      MHD_USE_POLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, nullptr, nullptr, State::Callbacks::on_request,
      &state, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_LISTEN_SOCKET, listener, MHD_OPTION_CONNECTION_LIMIT,
      static_cast<unsigned>(options.connections) + kReserveConnections, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
      kConnectionBytes, MHD_OPTION_CONNECTION_TIMEOUT, static_cast<unsigned>(options.body_seconds),
      MHD_OPTION_NOTIFY_COMPLETED, State::Callbacks::on_completed, &state, MHD_OPTION_NOTIFY_CONNECTION,
      State::Callbacks::on_connection, &state, MHD_OPTION_URI_LOG_CALLBACK, State::Callbacks::on_target, &state,
      MHD_OPTION_END);
  if (state.daemon == nullptr) {
    ::close(listener);
    throw Failure(kExitRuntime, "--http: the server could not be started.");
  }
  state.housekeeper = std::thread([&state] { state.keep_house(); });
}

void HttpServer::stop() {
  State& state = *state_;
  if (state.daemon == nullptr) return;
  const int listener = MHD_quiesce_daemon(state.daemon);
  {
    const std::lock_guard lock(state.mutex);
    state.is_stopping = true;
    state.changed.notify_all();
  }
  state.housekeeper.join();
  // Readers get the end of their stream; libmicrohttpd stops only when no connection is suspended.
  for (const auto& exchange : state.open_exchanges()) exchange->finish_for_stop();
  {
    std::unique_lock lock(state.mutex);
    state.changed.wait_for(lock, kMaxStopping, [&state] { return state.exchanges.empty(); });
  }
  for (const auto& exchange : state.open_exchanges()) exchange->cut_off();
  MHD_stop_daemon(std::exchange(state.daemon, nullptr));
  if (listener >= 0) ::close(listener);
}

int32_t HttpServer::port() const { return state_->port; }

std::vector<std::string> HttpServer::urls() const { return reached_urls(state_->options.address, state_->port); }

HttpCounts HttpServer::counts() const {
  HttpCounts counts = state_->connections.counts();
  counts.shed += state_->totals->cut_off;
  counts.body_bytes = state_->totals->body_bytes;
  return counts;
}

}  // namespace ocellus::app

#include "apps/http/http_exchange.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "apps/http/http_connections.h"

namespace ocellus::app {
namespace {

constexpr size_t kStreamBlockBytes = 8192;

ssize_t read_stream(void* reader, uint64_t /*position*/, char* out, size_t capacity) noexcept {
  try {
    return (*static_cast<std::shared_ptr<Exchange>*>(reader))->read(out, capacity);
  } catch (...) {
    return MHD_CONTENT_READER_END_WITH_ERROR;  // out of memory
  }
}
void free_reader(void* reader) { delete static_cast<std::shared_ptr<Exchange>*>(reader); }
void free_body(void* body) { delete static_cast<std::string*>(body); }

bool has_header(const HttpResponse& response, std::string_view name) {
  return std::any_of(response.headers.begin(), response.headers.end(),
                     [name](const auto& header) { return header.first == name; });
}

}  // namespace

void allow_origin(HttpResponse* response, const std::string& origin) {
  if (origin.empty()) return;
  response->headers.insert(response->headers.end(), {{"Access-Control-Allow-Origin", origin},
                                                     {"Access-Control-Expose-Headers", "x-request-id, Retry-After"},
                                                     {"Vary", "Origin"}});
}

MHD_Response* make_mhd_response(HttpResponse response, std::shared_ptr<Exchange> reader) {
  MHD_Response* made = nullptr;
  if (reader != nullptr) {
    made = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, kStreamBlockBytes, read_stream,
                                             new std::shared_ptr<Exchange>(std::move(reader)), free_reader);
  } else {
    auto* body = new std::string(std::move(response.body));
    made = MHD_create_response_from_buffer_with_free_callback_cls(body->size(), body->data(), free_body, body);
  }
  if (made == nullptr) throw std::bad_alloc();
  (void)MHD_add_response_header(made, "Content-Type", response.content_type.c_str());
  (void)MHD_add_response_header(made, "X-Content-Type-Options", "nosniff");
  (void)MHD_add_response_header(made, "Referrer-Policy", "no-referrer");
  (void)MHD_add_response_header(made, "Cross-Origin-Resource-Policy", "same-origin");
  if (!has_header(response, "Cache-Control")) (void)MHD_add_response_header(made, "Cache-Control", "no-store");
  for (const auto& [name, value] : response.headers) (void)MHD_add_response_header(made, name.c_str(), value.c_str());
  return made;
}

MHD_Result queue_response(MHD_Connection* connection, HttpResponse response) {
  const auto status = static_cast<unsigned>(response.status);
  MHD_Response* made = make_mhd_response(std::move(response), nullptr);
  const MHD_Result result = MHD_queue_response(connection, status, made);
  MHD_destroy_response(made);
  return result;
}

HttpResponse refuse_overload() {
  HttpResponse response =
      error_response(503, "The server is overloaded; try again later.", "server_error", "overloaded");
  response.headers = {{"Retry-After", "1"}};
  return response;
}

Exchange::Exchange(HttpRequest request, const HttpOptions& options, std::shared_ptr<ExchangeTotals> totals,
                   MHD_Connection* connection, int socket)
    : request_(std::move(request)),
      stream_bytes_(options.stream_bytes),
      read_ns_(int64_t{options.body_seconds} * 1'000'000'000),
      totals_(std::move(totals)),
      all_bytes_(options.all_body_bytes),
      body_bytes_(static_cast<int64_t>(request_.body.size())),
      connection_(connection),
      socket_(socket) {}

Exchange::~Exchange() { totals_->body_bytes -= body_bytes_ + answer_bytes_; }

HttpBody Exchange::take_body() {
  const std::lock_guard lock(mutex_);
  return {std::exchange(request_.body, {}), {totals_, &totals_->body_bytes}, std::exchange(body_bytes_, 0), all_bytes_};
}

bool Exchange::start(HttpResponse* response, bool is_stream) {
  if (is_started_ || is_gone_) return false;
  is_started_ = true;
  is_stream_ = is_stream;
  if (!is_stream) ended_ns_ = http_clock_ns();
  response_ = std::move(*response);
  if (!is_stream) count_answer();
  return true;
}

// Each connection may have an answer of stream_bytes.
void Exchange::count_answer() {
  const auto bytes = static_cast<int64_t>(response_.body.size());
  if (bytes <= stream_bytes_) return;
  if ((totals_->body_bytes += bytes) > all_bytes_) {
    totals_->body_bytes -= bytes;
    ++totals_->cut_off;
    response_ = refuse_overload();
  } else {
    answer_bytes_ = bytes;
  }
}

void Exchange::respond(HttpResponse response) {
  const std::lock_guard lock(mutex_);
  if (start(&response, false)) wake();
}

void Exchange::begin_stream(HttpResponse head) {
  const std::lock_guard lock(mutex_);
  if (!start(&head, true)) return;
  pending_ = std::exchange(response_.body, {});
  wake();
}

bool Exchange::write(std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  if (is_gone_ || !is_stream_ || is_ended_) return false;
  const size_t unread = pending_.size() - pending_begin_;
  if (static_cast<int64_t>(unread + bytes.size()) > stream_bytes_) {
    ++totals_->cut_off;
    cut_off_locked();
    return false;
  }
  if (pending_begin_ > unread) pending_.erase(0, std::exchange(pending_begin_, 0));
  pending_ += bytes;
  wake();
  return true;
}

void Exchange::end() {
  const std::lock_guard lock(mutex_);
  if (is_gone_ || !is_stream_ || is_ended_) return;
  is_ended_ = true;
  ended_ns_ = http_clock_ns();
  wake();
}

bool Exchange::is_open() const {
  const std::lock_guard lock(mutex_);
  return !is_gone_;
}

MHD_Result Exchange::answer() {
  std::unique_lock lock(mutex_);
  if (is_gone_) return MHD_NO;
  if (!is_started_) {
    is_suspended_ = true;
    MHD_suspend_connection(connection_);
    return MHD_YES;
  }
  HttpResponse response = std::exchange(response_, {});
  more_ = std::move(response.more);
  const bool is_read = is_stream_ || more_;
  lock.unlock();  // libmicrohttpd holds the response's lock where it reads a stream, which takes this one
  allow_origin(&response, request_.cors_origin);
  if (!request_.header("transfer-encoding").empty()) response.headers.emplace_back("Connection", "close");
  if (!is_read) return queue_response(connection_, std::move(response));
  const auto status = static_cast<unsigned>(response.status);
  MHD_Response* made = make_mhd_response(std::move(response), shared_from_this());
  const MHD_Result result = MHD_queue_response(connection_, status, made);
  MHD_destroy_response(made);
  return result;
}

ssize_t Exchange::read(char* out, size_t capacity) {
  const std::lock_guard lock(mutex_);
  if (is_gone_) return MHD_CONTENT_READER_END_WITH_ERROR;
  if (more_ && pending_begin_ == pending_.size()) {
    pending_ = more_();
    pending_begin_ = 0;
    if (pending_.empty()) return MHD_CONTENT_READER_END_OF_STREAM;
  }
  const size_t count = std::min(capacity, pending_.size() - pending_begin_);
  if (count > 0) {
    std::memcpy(out, pending_.data() + pending_begin_, count);
    pending_begin_ += count;
    return static_cast<ssize_t>(count);
  }
  if (is_ended_) return MHD_CONTENT_READER_END_OF_STREAM;
  is_suspended_ = true;
  MHD_suspend_connection(connection_);
  return 0;
}

void Exchange::detach() {
  const std::lock_guard lock(mutex_);
  connection_ = nullptr;
  is_gone_ = true;
  is_suspended_ = false;
  totals_->body_bytes -= std::exchange(answer_bytes_, 0);
  more_ = {};
  response_ = {};
  pending_ = {};
  pending_begin_ = 0;
}

void Exchange::check_client(int64_t now_ns) {
  const std::lock_guard lock(mutex_);
  if (connection_ == nullptr || is_gone_) return;
  const bool is_slow = ended_ns_ != 0 && now_ns - ended_ns_ > read_ns_;
  pollfd client = {.fd = socket_, .events = POLLRDHUP, .revents = 0};
  const bool may_leave = is_suspended_ || is_stream_;
  const bool has_left = may_leave && poll(&client, 1, 0) > 0 && (client.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
  if (is_slow || has_left) cut_off_locked();
  if (is_slow) ++totals_->cut_off;
}

void Exchange::finish_for_stop() {
  const std::lock_guard lock(mutex_);
  if (is_gone_) return;
  HttpResponse refusal = error_response(503, "The server is shutting down.", "server_error", "shutting_down");
  (void)start(&refusal, false);
  is_ended_ = true;
  wake();
}

void Exchange::cut_off() {
  const std::lock_guard lock(mutex_);
  if (!is_gone_) cut_off_locked();
}

void Exchange::cut_off_locked() {
  is_gone_ = true;
  more_ = {};
  pending_ = {};
  pending_begin_ = 0;
  if (connection_ == nullptr) return;
  (void)shutdown(socket_, SHUT_RDWR);
  wake();
}

void Exchange::wake() {
  if (!std::exchange(is_suspended_, false)) return;
  MHD_resume_connection(connection_);
}

}  // namespace ocellus::app

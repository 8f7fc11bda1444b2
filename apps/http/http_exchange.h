// A request whose answer may come later, from any thread. While there is nothing to send, its connection is suspended:
// the server's thread ignores it.
#pragma once

#include <microhttpd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "apps/http/http_server.h"

namespace ocellus::app {

// Totals of all exchanges. Exchanges may outlive the server; they share ownership of this.
struct ExchangeTotals {
  std::atomic<int64_t> body_bytes{0};  // in memory
  std::atomic<int64_t> cut_off{0};     // clients cut off because they read too slowly
};

class Exchange final : public HttpExchange, public std::enable_shared_from_this<Exchange> {
 public:
  // `request`'s body is already counted in `totals`.
  Exchange(HttpRequest request, const HttpOptions& options, std::shared_ptr<ExchangeTotals> totals,
           MHD_Connection* connection, int socket);
  ~Exchange() override;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  const HttpRequest& request() const override { return request_; }
  void respond(HttpResponse response) override;
  void begin_stream(HttpResponse head) override;
  bool write(std::string_view bytes) override;
  void end() override;
  bool is_open() const override;
  HttpBody take_body() override;

  // Queues the answer, or suspends the connection until there is one. On the server's thread.
  MHD_Result answer();
  // Reads bytes of the stream, or of a body that comes in pieces; suspends the connection if there are none.
  ssize_t read(char* out, size_t capacity);
  // Ends the link to the connection.
  void detach();

  // Cuts off clients that have left or read too slowly. On the housekeeping thread.
  void check_client(int64_t now_ns);
  // Ends a stream, and answers 503 if nothing was answered.
  void finish_for_stop();
  void cut_off();

 private:
  // Call all with the mutex held.
  bool start(HttpResponse* response, bool is_stream);
  void wake();
  void count_answer();
  void cut_off_locked();

  HttpRequest request_;
  const int64_t stream_bytes_;
  const int64_t read_ns_;  // time limit for reading a complete answer
  const std::shared_ptr<ExchangeTotals> totals_;
  const int64_t all_bytes_;   // maximum of what totals_ counts
  int64_t body_bytes_;        // counted there
  int64_t answer_bytes_ = 0;  // the same of a large answer

  mutable std::mutex mutex_;
  MHD_Connection* connection_;  // nullptr once detached
  const int socket_;
  bool is_suspended_ = false;
  bool is_started_ = false;
  bool is_stream_ = false;
  bool is_ended_ = false;
  bool is_gone_ = false;
  int64_t ended_ns_ = 0;
  HttpResponse response_;              // until it is queued
  std::function<std::string()> more_;  // gives its body
  std::string pending_;                // bytes of the stream
  size_t pending_begin_ = 0;
};

// Lets pages of `origin` read the response; empty: none.
void allow_origin(HttpResponse* response, const std::string& origin);

// Adds the headers of all responses. `reader`: the exchange whose stream is the body; nullptr: the response has a body.
MHD_Response* make_mhd_response(HttpResponse response, std::shared_ptr<Exchange> reader);

HttpResponse refuse_overload();

// Queues a whole response.
MHD_Result queue_response(MHD_Connection* connection, HttpResponse response);

}  // namespace ocellus::app

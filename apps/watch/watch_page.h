// The page of a watch, its events and its endpoints.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "apps/http/http_server.h"
#include "apps/watch/watcher.h"

namespace ocellus::app {

// Maximum memory for reading a question or settings, besides the body.
inline constexpr int64_t kMaxPageReadingBytes = int64_t{4} << 20;

class WatchPage : public WatchListener {
 public:
  // Listens; throws a Failure if that is impossible. The watcher must outlive this object.
  WatchPage(Watcher* watcher, const HttpOptions& options);
  ~WatchPage() override;
  WatchPage(const WatchPage&) = delete;
  WatchPage& operator=(const WatchPage&) = delete;

  std::vector<std::string> urls() const { return server_.urls(); }
  void tell(const char* event, const nlohmann::ordered_json& data) override;

 private:
  using Exchange = std::shared_ptr<HttpExchange>;
  void add_pictures();
  void add_reports();
  void add_changes();
  void begin_events(const Exchange& exchange);
  void send_thumbnail(const Exchange& exchange);
  void send_records(const Exchange& exchange);
  void send_day(const Exchange& exchange);
  void send_preview(const Exchange& exchange);
  void take_question(const Exchange& exchange);
  void take_forget(const Exchange& exchange);
  void take_settings(const Exchange& exchange);
  void take_frame(const Exchange& exchange);

  Watcher* watcher_;
  HttpServer server_;
  std::mutex mutex_;
  std::vector<Exchange> listeners_;
};

}  // namespace ocellus::app

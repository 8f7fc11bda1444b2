#include "apps/watch/watch_page.h"

#include <algorithm>
#include <charconv>

#include "apps/base/failure.h"
#include "apps/camera/posted_source.h"
#include "apps/http/http_json.h"
#include "apps/http/page_files.h"
#include "apps/setup/answer.h"

namespace ocellus::app {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxListeners = 32;
constexpr size_t kMaxSenderBytes = 64;
constexpr int64_t kMaxFrameAgeMs = 60000;
constexpr int64_t kMaxRequestBytes = 65536;  // limit for a question or settings

HttpResponse json_response(const Json& data, int status = 200) {
  return {.status = status, .content_type = "application/json", .body = json_line(data)};
}

std::string event_text(const char* event, const Json& data) {
  return "event: " + std::string(event) + "\ndata: " + json_line(data) + "\n";
}

// Returns the number, or `fallback` if it is absent.
int64_t number_argument(const HttpRequest& request, std::string_view name, int64_t fallback) {
  const std::string_view text = request.argument(name);
  int64_t number = fallback;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// A picture that never changes.
void send_jpeg(const std::shared_ptr<HttpExchange>& exchange, const std::vector<uint8_t>& jpeg, const char* otherwise) {
  if (jpeg.empty()) return exchange->respond(error_response(404, otherwise));
  exchange->respond({.content_type = "image/jpeg",
                     .body = std::string(jpeg.begin(), jpeg.end()),
                     .headers = {{"Cache-Control", "private, max-age=3600"}}});
}

int status_of(const Failure& failure) {
  switch (failure.exit_code()) {
    case kExitUsage: return 400;
    case kExitOverBudget: return 409;
    default: return 500;
  }
}

}  // namespace

WatchPage::WatchPage(Watcher* watcher, const HttpOptions& options) : watcher_(watcher), server_(options) {
  add_page(&server_, watch_files());
  add_pictures();
  add_reports();
  add_changes();
  server_.start();
  watcher_->set_listener(this);
}

WatchPage::~WatchPage() {
  watcher_->set_listener(nullptr);
  server_.stop();
}

void WatchPage::tell(const char* event, const Json& data) {
  const std::lock_guard lock(mutex_);
  if (listeners_.empty()) return;
  const std::string text = event_text(event, data);
  const auto is_gone = [&text](const Exchange& listener) { return !listener->write(text); };
  listeners_.erase(std::remove_if(listeners_.begin(), listeners_.end(), is_gone), listeners_.end());
  if (!listeners_.empty()) watcher_->live().look();
}

void WatchPage::add_pictures() {
  server_.handle("GET", "/frame.jpg", [this](const Exchange& exchange) {
    watcher_->live().look();
    const std::shared_ptr<const EncodedPicture> picture = watcher_->live().latest();
    if (!picture) return exchange->respond(error_response(404, "There is no picture yet."));
    exchange->respond({.content_type = "image/jpeg", .body = std::string(picture->jpeg.begin(), picture->jpeg.end())});
  });
  server_.handle("GET", "/history/*", [this](const Exchange& exchange) { send_thumbnail(exchange); });
  server_.handle("GET", "/day/*", [this](const Exchange& exchange) { send_preview(exchange); });
}

void WatchPage::send_preview(const Exchange& exchange) {
  constexpr std::string_view kBefore = "/day/", kAfter = ".jpg";
  const std::string& path = exchange->request().path;
  const bool is_picture =
      watcher_->day() != nullptr && path.size() > kBefore.size() + kAfter.size() && path.ends_with(kAfter);
  const std::vector<uint8_t> jpeg =
      is_picture ? watcher_->day()->preview(path.substr(kBefore.size(), path.size() - kBefore.size() - kAfter.size()))
                 : std::vector<uint8_t>();
  send_jpeg(exchange, jpeg, "The library holds no such picture.");
}

void WatchPage::send_thumbnail(const Exchange& exchange) {
  constexpr std::string_view kBefore = "/history/", kAfter = ".jpg";
  const std::string& path = exchange->request().path;
  const char* end = path.data() + path.size() - kAfter.size();
  int64_t id = 0;
  const bool is_picture = path.size() > kBefore.size() + kAfter.size() && std::string_view(end, 4) == kAfter &&
                          std::from_chars(path.data() + kBefore.size(), end, id).ptr == end;
  const std::vector<uint8_t> jpeg = is_picture ? watcher_->log().thumbnail(id) : std::vector<uint8_t>();
  send_jpeg(exchange, jpeg, "The history holds no such picture.");
}

void WatchPage::add_reports() {
  server_.handle("GET", "/api/events", [this](const Exchange& exchange) { begin_events(exchange); });
  server_.handle("GET", "/api/state",
                 [this](const Exchange& exchange) { exchange->respond(json_response(watcher_->state())); });
  server_.handle("GET", "/api/history", [this](const Exchange& exchange) { send_records(exchange); });
  server_.handle("GET", "/api/day", [this](const Exchange& exchange) { send_day(exchange); });
  server_.handle("GET", "/api/answers", [this](const Exchange& exchange) {
    Json answers = Json::array();
    for (const QuestionAnswer& answer : watcher_->log().answers(WatchLog::kMaxAnswers)) {
      answers.push_back(question_answer_json(answer));
    }
    exchange->respond(json_response({{"answers", answers}}));
  });
  server_.handle("GET", "/metrics", [this](const Exchange& exchange) {
    exchange->respond({.content_type = kPrometheusType, .body = watcher_->metrics()});
  });
  server_.handle("GET", "/healthz", [this](const Exchange& exchange) {
    const std::string trouble = watcher_->trouble();
    exchange->respond({.status = trouble.empty() ? 200 : 503, .body = (trouble.empty() ? "ok" : trouble) + "\n"});
  });
  server_.open_path("/healthz");
}

void WatchPage::begin_events(const Exchange& exchange) {
  const std::lock_guard lock(mutex_);
  const auto is_gone = [](const Exchange& listener) { return !listener->is_open(); };
  listeners_.erase(std::remove_if(listeners_.begin(), listeners_.end(), is_gone), listeners_.end());
  if (listeners_.size() >= kMaxListeners) {
    return exchange->respond(error_response(503, "Too many pages are open.", "overloaded_error"));
  }
  exchange->begin_stream({.content_type = "text/event-stream",
                          .body = "retry: 1000\n\n" + event_text("state", watcher_->state()),
                          .headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}}});
  listeners_.push_back(exchange);
  watcher_->live().look();
}

void WatchPage::send_records(const Exchange& exchange) {
  const HttpRequest& request = exchange->request();
  const int64_t count = std::clamp<int64_t>(number_argument(request, "count", 50), 1, 100);
  Json records = Json::array();
  for (const Record& record :
       watcher_->log().records(number_argument(request, "before", 0), static_cast<size_t>(count))) {
    records.push_back(record_json(record));
  }
  exchange->respond(json_response({{"records", records}}));
}

// Frames of the library, newest first: `before` in ms, `words` of their captions, at most `count`.
void WatchPage::send_day(const Exchange& exchange) {
  const HttpRequest& request = exchange->request();
  const int64_t count = std::clamp<int64_t>(number_argument(request, "count", 60), 1, 200);
  Json frames = Json::array();
  if (const DayFrames* day = watcher_->day()) {
    const std::string words(request.argument("words"));
    for (const DayFrame& frame : day->find(number_argument(request, "before", 0), words, static_cast<size_t>(count))) {
      frames.push_back(day_frame_json(frame));
    }
  }
  exchange->respond(json_response({{"frames", frames}}));
}

void WatchPage::add_changes() {
  const auto guarded = [](void (WatchPage::*take)(const Exchange&), WatchPage* page) {
    return [take, page](const Exchange& exchange) {
      try {
        (page->*take)(exchange);
      } catch (const Failure& failure) {
        exchange->respond(error_response(status_of(failure), failure.what()));
      }
    };
  };
  server_.handle("POST", "/api/question", guarded(&WatchPage::take_question, this), kMaxRequestBytes);
  server_.handle("POST", "/api/forget", guarded(&WatchPage::take_forget, this), kMaxRequestBytes);
  server_.handle("POST", "/api/settings", guarded(&WatchPage::take_settings, this), kMaxRequestBytes);
  server_.handle("POST", "/api/frame", guarded(&WatchPage::take_frame, this), FrameInbox::kMaxBytes);
}

void WatchPage::take_question(const Exchange& exchange) {
  Json data;
  if (!read_json_body(exchange, &data)) return;
  if (!data.contains("text") || !data["text"].is_string()) {
    return exchange->respond(error_response(400, "text must be a string: the question."));
  }
  const std::optional<int64_t> id = watcher_->ask(data["text"].get<std::string>());
  if (!id) return exchange->respond(error_response(503, "Too many questions wait already.", "overloaded_error"));
  exchange->respond(json_response({{"id", *id}}, 202));
}

void WatchPage::take_forget(const Exchange& exchange) {
  Json data;
  if (!read_json_body(exchange, &data)) return;
  const auto time = [&](const char* name) {
    return data.contains(name) && data[name].is_number_integer() ? data[name].get<int64_t>() : int64_t{-1};
  };
  const TimeSpan span = {time("from_ms"), time("to_ms")};
  if (span.begin_ms < 0 || span.end_ms <= span.begin_ms) {
    return exchange->respond(error_response(400, "from_ms and to_ms must be whole numbers, the second the greater."));
  }
  if (watcher_->day() == nullptr)
    return exchange->respond(error_response(409, "This watch keeps no library of frames."));
  exchange->respond(json_response({{"forgotten", watcher_->day()->forget(span)}}));
}

void WatchPage::take_settings(const Exchange& exchange) {
  Json data;
  if (!read_json_body(exchange, &data)) return;
  watcher_->change_settings(data);
  exchange->respond(json_response(watcher_->state()));
}

// Takes a JPEG file, which no page of another origin can send without a preflight. `age_ms` is the time since its
// capture: the clocks of two machines may differ.
void WatchPage::take_frame(const Exchange& exchange) {
  const HttpRequest& request = exchange->request();
  if (watcher_->inbox() == nullptr) {
    return exchange->respond(error_response(409,
                                            "This watch has a source of its own; `ocellus watch browser` takes "
                                            "frames."));
  }
  if (request.header("content-type") != "image/jpeg") {
    return exchange->respond(error_response(415, "The body must be a picture, with Content-Type: image/jpeg."));
  }
  const std::string_view sender = request.argument("sender");
  if (sender.empty() || sender.size() > kMaxSenderBytes) {
    return exchange->respond(error_response(400, "sender must be a name that the page has chosen."));
  }
  const int64_t age_ms = number_argument(request, "age_ms", 0);
  if (age_ms < 0 || age_ms > kMaxFrameAgeMs) {
    return exchange->respond(error_response(400, "age_ms must be a whole number from 0 to 60000."));
  }
  const int64_t captured_ns = monotonic_ns() - age_ms * 1'000'000;
  if (!watcher_->inbox()->put(std::string(sender), exchange->take_body(), captured_ns)) {
    return exchange->respond(error_response(409, "Another page sends its camera already: stop it there first.",
                                            "invalid_request_error", "other_sender"));
  }
  exchange->respond({.status = 204, .body = ""});
}

}  // namespace ocellus::app

#include "apps/hub/web.h"

#include <curl/curl.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <new>
#include <utility>

#include "apps/base/failure.h"
#include "apps/base/printable_text.h"
#include "apps/hub/loaded_library.h"

namespace ocellus::app {
namespace {

constexpr int kMostRedirects = 10;
constexpr size_t kMostMessage = 300;

struct Curl {
  decltype(&curl_global_init) global_init = nullptr;
  decltype(&curl_easy_init) init = nullptr;
  decltype(&curl_easy_reset) reset = nullptr;
  decltype(&curl_easy_setopt) set = nullptr;
  decltype(&curl_easy_perform) perform = nullptr;
  decltype(&curl_easy_getinfo) info = nullptr;
  decltype(&curl_easy_cleanup) cleanup = nullptr;
  decltype(&curl_easy_strerror) strerror = nullptr;
  decltype(&curl_slist_append) append = nullptr;
  decltype(&curl_slist_free_all) free_all = nullptr;

  Curl() {
    const LoadedLibrary library = {"libcurl.so.4", "libcurl-gnutls.so.4"};
    const bool is_loaded = library.find("curl_global_init", &global_init) && library.find("curl_easy_init", &init) &&
                           library.find("curl_easy_reset", &reset) && library.find("curl_easy_setopt", &set) &&
                           library.find("curl_easy_perform", &perform) && library.find("curl_easy_getinfo", &info) &&
                           library.find("curl_easy_cleanup", &cleanup) &&
                           library.find("curl_easy_strerror", &strerror) &&
                           library.find("curl_slist_append", &append) && library.find("curl_slist_free_all", &free_all);
    if (!is_loaded || global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
      throw Failure(kExitRuntime, "libcurl, which fetches models, is not on this system: install libcurl4.");
  }
};

const Curl& curl() {
  static const Curl functions;
  return functions;
}

// "https://host:443": what a token may be sent to.
std::string origin(const std::string& url) {
  const size_t host = std::min(url.find("://") + 3, url.size());
  const std::string scheme = to_lower(url.substr(0, host));
  std::string place = to_lower(url.substr(host, url.find_first_of("/?#", host) - host));
  place = place.substr(place.rfind('@') + 1);
  const size_t colon = place.rfind(':');
  const bool has_port = colon != std::string::npos && place.find(']', colon) == std::string::npos;
  return scheme + place + (has_port ? "" : scheme == "https://" ? ":443" : ":80");
}

int64_t read_number(std::string_view text) {
  int64_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value >= 0 ? value : -1;
}

// "bytes 100-199/200"
void read_range(std::string_view text, WebAnswer* answer) {
  constexpr std::string_view kUnit = "bytes ";
  const size_t dash = text.find('-'), slash = text.find('/');
  answer->begin = -1;
  if (!text.starts_with(kUnit) || dash == text.npos || slash == text.npos) return;
  answer->begin = read_number(text.substr(kUnit.size(), dash - kUnit.size()));
  answer->total_bytes = read_number(text.substr(slash + 1));
}

void read_header(std::string_view line, WebAnswer* answer) {
  const size_t colon = line.find(':');
  if (colon == line.npos) return;
  const std::string name = to_lower(line.substr(0, colon)), value = trim(line.substr(colon + 1));
  if (name == "x-error-code") answer->error_code = shorten(make_printable(value, Lines::kOne), kMostMessage);
  if (name == "x-error-message") answer->error_message = shorten(make_printable(value, Lines::kOne), kMostMessage);
  if (name == "content-length" && answer->total_bytes == -1) answer->total_bytes = read_number(value);
  if (name == "content-encoding" && to_lower(value) != "identity")
    answer->total_bytes = -2;  // the length is that of compressed bytes
  if (name == "content-range") read_range(value, answer);
}

// One request and what is received of it.
struct Exchange {
  using Clock = std::chrono::steady_clock;

  WebAnswer answer;
  const Receiver* receive = nullptr;
  int32_t stall_s = 0;
  Clock::time_point last_byte = Clock::now();
  std::exception_ptr failure;  // thrown by the receiver: none may pass through libcurl's C

  static size_t take_header(char* data, size_t size, size_t count, void* user) {
    auto* const exchange = static_cast<Exchange*>(user);
    exchange->last_byte = Clock::now();
    WebAnswer& answer = exchange->answer;
    const std::string_view line(data, size * count);
    if (line.starts_with("HTTP/")) {  // a proxy's, "100 Continue", or the answer itself
      answer = {};
      const size_t space = std::min(line.find(' '), line.size());
      answer.status = static_cast<int>(read_number(line.substr(std::min(space + 1, line.size()), 3)));
    }
    read_header(line, &answer);
    return size * count;
  }

  // libcurl calls this once a second, too, when nothing comes. Its own limit is of an average over five seconds.
  static int check_silence(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    const auto* const exchange = static_cast<const Exchange*>(user);
    return Clock::now() - exchange->last_byte > std::chrono::seconds(exchange->stall_s) ? 1 : 0;
  }

  static size_t take_body(char* data, size_t size, size_t count, void* user) {
    auto* const exchange = static_cast<Exchange*>(user);
    exchange->last_byte = Clock::now();
    const int status = exchange->answer.status;
    if (status != 200 && status != 206) return size * count;
    try {
      if ((*exchange->receive)(exchange->answer, {data, size * count})) return size * count;
    } catch (...) {
      exchange->failure = std::current_exception();
    }
    exchange->answer.is_stopped = true;
    return 0;
  }
};

class Headers {
 public:
  ~Headers() { curl().free_all(list_); }
  Headers() = default;
  Headers(const Headers&) = delete;
  Headers& operator=(const Headers&) = delete;
  void add(const std::string& line) {
    curl_slist* const longer = curl().append(list_, line.c_str());
    if (longer == nullptr) throw std::bad_alloc();
    list_ = longer;
  }
  curl_slist* list() const { return list_; }

 private:
  curl_slist* list_ = nullptr;
};

}  // namespace

struct Web::State {
  State() : handle(curl().init()) {
    if (handle == nullptr) throw std::bad_alloc();
  }
  ~State() { curl().cleanup(handle); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  template <class Value>
  void set(CURLoption option, Value value) const {
    const CURLcode code = curl().set(handle, option, value);
    if (code != CURLE_OK)
      throw Failure(kExitRuntime, std::string("libcurl refuses a setting: ") + curl().strerror(code) + ".");
  }

  // One request. *next: where a redirect leads, empty if nowhere.
  WebAnswer ask(const std::string& url, const std::string& token, int64_t from, int32_t stall_s,
                const Receiver& receive, std::string* next) const {
    Exchange exchange;
    exchange.receive = &receive;
    exchange.stall_s = stall_s;
    Headers headers;
    if (!token.empty()) headers.add("Authorization: Bearer " + token);
    curl().reset(handle);
    set(CURLOPT_URL, url.c_str());
    set(CURLOPT_HTTPHEADER, headers.list());
    set(CURLOPT_USERAGENT, "ocellus");
    set(CURLOPT_ACCEPT_ENCODING, "identity");  // answers that are compressed all the same are decoded
    set(CURLOPT_CONNECTTIMEOUT, static_cast<long>(stall_s));
    set(CURLOPT_NOPROGRESS, 0L);
    set(CURLOPT_XFERINFOFUNCTION, &Exchange::check_silence);
    set(CURLOPT_XFERINFODATA, static_cast<void*>(&exchange));
    set(CURLOPT_BUFFERSIZE, 256L << 10);
    set(CURLOPT_HEADERFUNCTION, &Exchange::take_header);
    set(CURLOPT_HEADERDATA, static_cast<void*>(&exchange));
    set(CURLOPT_WRITEFUNCTION, &Exchange::take_body);
    set(CURLOPT_WRITEDATA, static_cast<void*>(&exchange));
    const std::string range = std::to_string(from) + "-";
    if (from > 0) set(CURLOPT_RANGE, range.c_str());
    const char* const authorities = std::getenv("SSL_CERT_FILE");  // a company's proxy may have its own
    if (authorities != nullptr && authorities[0] != '\0') set(CURLOPT_CAINFO, authorities);
    const CURLcode code = curl().perform(handle);
    if (exchange.failure) std::rethrow_exception(exchange.failure);

    WebAnswer& answer = exchange.answer;
    curl_off_t connected_us = 0, wait_s = 0;
    char* location = nullptr;
    curl().info(handle, CURLINFO_CONNECT_TIME_T, &connected_us);
    curl().info(handle, CURLINFO_RETRY_AFTER, &wait_s);
    curl().info(handle, CURLINFO_REDIRECT_URL, &location);
    answer.was_connected = connected_us > 0 || answer.status > 0;
    answer.retry_after_s = std::max<int64_t>(wait_s, 0);
    answer.total_bytes = std::max<int64_t>(answer.total_bytes, -1);
    if (code == CURLE_ABORTED_BY_CALLBACK)
      answer.problem = "no byte came for " + std::to_string(stall_s) + " s";
    else if (code != CURLE_OK && !answer.is_stopped)
      answer.problem = curl().strerror(code);
    *next = answer.status >= 300 && answer.status < 400 && location != nullptr ? location : "";
    return answer;
  }

  CURL* handle;
};

Web::Web(const HubSettings& settings) : settings_(settings), state_(std::make_unique<State>()) {}

Web::~Web() = default;

WebAnswer Web::get(const std::string& path, int64_t from, const Receiver& receive) {
  std::string url = settings_.endpoint + path, next;
  const std::string home = origin(url);
  for (int i = 0; i <= kMostRedirects; ++i) {
    const bool is_home = origin(url) == home;
    WebAnswer answer = state_->ask(url, is_home ? settings_.token : "", from, settings_.stall_s, receive, &next);
    if (next.empty()) return answer;
    const std::string to = to_lower(next.substr(0, next.find("://") + 3));
    if (to != "https://" && (to != "http://" || to_lower(url).starts_with("https://"))) {
      answer.problem = "redirects to an address that is not https";
      answer.is_final = true;
      return answer;
    }
    url = std::exchange(next, "");
  }
  WebAnswer answer;
  answer.problem = "redirects without end";
  answer.is_final = true;
  return answer;
}

std::string encode_path(std::string_view path) {
  constexpr std::string_view kPlain = "-_.~/";
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string text;
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || kPlain.find(c) != kPlain.npos;
    if (is_plain)
      text += c;
    else
      text += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return text;
}

}  // namespace ocellus::app

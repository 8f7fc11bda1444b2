// The body of a request taken by a handler. Its bytes count towards HttpOptions::all_body_bytes while it lives.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace ocellus::app {

class HttpBody {
 public:
  HttpBody() = default;
  // `total`: bytes of all bodies, `counted` of them for this one; `most`: their maximum.
  HttpBody(std::string given, std::shared_ptr<std::atomic<int64_t>> total, int64_t counted, int64_t most = INT64_MAX)
      : bytes(std::move(given)), total_(std::move(total)), counted_(counted), most_(most) {}
  HttpBody(HttpBody&& other) noexcept { swap(&other); }
  HttpBody& operator=(HttpBody&& other) noexcept {
    HttpBody taken(std::move(other));
    swap(&taken);
    return *this;
  }
  ~HttpBody() { (void)recount(0); }

  std::string bytes;

  // Counts this many bytes from now on, for what was made of the body. Returns false, and counts as before, if that is
  // more and all bodies together would exceed their maximum.
  [[nodiscard]] bool recount(int64_t counted) {
    const int64_t more = counted - counted_;
    if (total_ != nullptr && (*total_ += more) > most_ && more > 0) {
      *total_ -= more;
      return false;
    }
    counted_ = counted;
    return true;
  }
  // Moves the bytes out; they no longer count.
  operator std::string() && {
    (void)recount(0);
    return std::move(bytes);
  }

 private:
  void swap(HttpBody* other) {
    std::swap(bytes, other->bytes);
    std::swap(total_, other->total_);
    std::swap(counted_, other->counted_);
    std::swap(most_, other->most_);
  }

  std::shared_ptr<std::atomic<int64_t>> total_;
  int64_t counted_ = 0;
  int64_t most_ = INT64_MAX;
};

}  // namespace ocellus::app

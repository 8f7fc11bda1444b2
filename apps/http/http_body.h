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
  // `total`: bytes of all bodies, `counted` of them for this one.
  HttpBody(std::string given, std::shared_ptr<std::atomic<int64_t>> total, int64_t counted)
      : bytes(std::move(given)), total_(std::move(total)), counted_(counted) {}
  HttpBody(HttpBody&& other) noexcept { swap(&other); }
  HttpBody& operator=(HttpBody&& other) noexcept {
    HttpBody taken(std::move(other));
    swap(&taken);
    return *this;
  }
  ~HttpBody() { recount(0); }

  std::string bytes;

  // Counts this many bytes from now on, for what was made of the body.
  void recount(int64_t counted) {
    if (total_ != nullptr) *total_ += counted - counted_;
    counted_ = counted;
  }
  // Moves the bytes out; they no longer count.
  operator std::string() && {
    recount(0);
    return std::move(bytes);
  }

 private:
  void swap(HttpBody* other) {
    std::swap(bytes, other->bytes);
    std::swap(total_, other->total_);
    std::swap(counted_, other->counted_);
  }

  std::shared_ptr<std::atomic<int64_t>> total_;
  int64_t counted_ = 0;
};

}  // namespace ocellus::app

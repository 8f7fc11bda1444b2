// Progress over the bytes of several files, which are fetched or checked piece by piece.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "apps/base/progress.h"

namespace ocellus::app {

class ByteProgress {
 public:
  // `bytes`: of all files together.
  ByteProgress(bool quiet, std::string task, int64_t bytes) : progress_(quiet, std::move(task)), total_(bytes) {}

  // Bytes that came.
  void add(int64_t bytes) {
    done_ += bytes;
    progress_.set(done_, total_);
  }
  // Bytes that were there before, which tell nothing of the rate; negative: to take some back.
  void skip(int64_t bytes) {
    kept_ = std::max<int64_t>(kept_ + bytes, 0);
    progress_.resume_at(kept_);
    add(bytes);
  }

 private:
  Progress progress_;
  int64_t total_, done_ = 0, kept_ = 0;
};

}  // namespace ocellus::app

// Progress of fetching and checking files, of which some bytes may be there already.
#pragma once

#include <cstdint>
#include <string>

#include "apps/base/progress.h"

namespace ocellus::app {

class FetchProgress {
 public:
  // `bytes`: of all files together.
  FetchProgress(const std::string& task, int64_t bytes, bool quiet) : progress_(quiet, task), total_(bytes) {}

  // Bytes that came.
  void add(int64_t bytes) { progress_.set(done_ += bytes, total_); }
  // Bytes that were there before, which tell nothing of the rate; negative: to take some back.
  void skip(int64_t bytes) {
    progress_.resume_at(there_ += bytes);
    add(bytes);
  }

 private:
  Progress progress_;
  const int64_t total_;
  int64_t done_ = 0, there_ = 0;
};

}  // namespace ocellus::app

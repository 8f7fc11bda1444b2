// Progress of loading weights, for a function of the caller's, which may end it.
#pragma once

#include <cstdint>

#include "platform/status.h"

namespace ocellus {

/// Receives the bytes loaded so far; nonzero ends the loading.
using LoadFunction = int (*)(void* user, int64_t done_bytes, int64_t total_bytes);

class LoadProgress {
 public:
  LoadProgress() = default;  // there is no function
  LoadProgress(LoadFunction function, void* user, int64_t total_bytes)
      : function_(function), user_(user), total_bytes_(total_bytes) {}

  /// Tells the caller of `bytes` more. kCancelled if that is enough.
  Status add(int64_t bytes) {
    done_bytes_ += bytes;
    if (function_ == nullptr || function_(user_, done_bytes_, total_bytes_) == 0) return {};
    return OCELLUS_FAIL(Code::kCancelled, "the caller ended the loading of the weights");
  }

 private:
  LoadFunction function_ = nullptr;
  void* user_ = nullptr;
  int64_t total_bytes_ = 0;
  int64_t done_bytes_ = 0;
};

}  // namespace ocellus

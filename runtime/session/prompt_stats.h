// Time and rows that a session's prompt took since the last generate.
#pragma once

#include <cstdint>

#include "runtime/ocellus.h"

namespace ocellus {

struct PromptStats {
  int32_t image_rows = 0;
  int32_t rows = 0;
  double preprocess_ms = 0;
  double encode_ms = 0;
  double prefill_ms = 0;
  int32_t library_hits = 0;
  int32_t library_memory_hits = 0;  // of these
  int32_t library_misses = 0;
  int64_t library_bytes = 0;  // read from files
  double library_saved_ms = 0;

  void report(ocellus_generate_stats* out) const;
};

}  // namespace ocellus

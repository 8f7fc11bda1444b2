// Times and row counts of a session's prompt since the last generate.
#pragma once

#include <cstdint>

#include "mm/tower/waiting_views.h"
#include "platform/queue.h"
#include "runtime/ocellus.h"

namespace ocellus {

/// Timers of the engine's queue that sessions use.
inline constexpr Queue::Timer kEncodeTimer{0}, kPrefillTimer{1};

struct PromptStats {
  int32_t image_rows = 0;
  int32_t rows = 0;
  ViewCounts views;
  double preprocess_ms = 0;
  double encode_ms = 0;
  double prefill_ms = 0;
  int32_t library_hits = 0;
  int32_t library_memory_hits = 0;  // hits without a file being read
  int32_t library_misses = 0;
  int32_t shared_image_hits = 0;
  int64_t library_bytes = 0;  // read from files
  double library_saved_ms = 0;

  void note_views(const ViewCounts& counts) {
    views.encoded += counts.encoded;
    views.known += counts.known;
  }
  void note_search(bool found) { (found ? library_hits : library_misses) += 1; }
  /// `bytes`: read from a file; 0: the entry was in memory.
  void note_hit(int64_t bytes, double saved_ms) {
    library_memory_hits += bytes == 0 ? 1 : 0;
    library_bytes += bytes;
    library_saved_ms += saved_ms;
  }
  void note_shared_hit(double saved_ms) {
    ++shared_image_hits;
    library_saved_ms += saved_ms;
  }
  void report(ocellus_generate_stats* out) const;
};

/// Measures the time of rows in the text model.
class PrefillTimer {
 public:
  explicit PrefillTimer(Queue& queue) : queue_(queue) { queue.start_timer(kPrefillTimer); }
  /// Waits for the queue.
  Status finish(double* total_ms) {
    queue_.stop_timer(kPrefillTimer);
    OCELLUS_TRY(queue_.finish());
    *total_ms += queue_.timer_ms(kPrefillTimer);
    return queue_.status();
  }

 private:
  Queue& queue_;
};

}  // namespace ocellus

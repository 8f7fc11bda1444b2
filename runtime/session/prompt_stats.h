// Times and row counts of a session's prompt since the last generate.
#pragma once

#include <cstdint>

#include "mm/tower/waiting_views.h"
#include "platform/queue.h"
#include "runtime/engine/branch.h"
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
  int32_t shared_image_hits = 0;
  StoreStats store;

  void note_views(const ViewCounts& counts) {
    views.encoded += counts.encoded;
    views.known += counts.known;
  }
  void note_shared_hit(double saved_ms) {
    ++shared_image_hits;
    store.saved_ms += saved_ms;
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
